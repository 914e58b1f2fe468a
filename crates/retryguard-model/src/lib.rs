//! The independent opinion on retry policies: it shares no code with the machines it judges.
