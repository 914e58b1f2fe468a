use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

use super::Trouble;

/// The parts of a run, in described seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phases {
    /// Before the fault.
    pub warm_up: u64,
    /// With it.
    pub fault: u64,
    /// After it.
    pub recovery: u64,
}

impl Phases {
    /// Faults last two minutes, as described; the spike thirty seconds of rise and sixty at its height. What comes
    /// before and after is not described: twenty seconds, and sixty, which is twice the time that breakers stay open.
    #[must_use]
    pub const fn of(trouble: Trouble) -> Self {
        let fault = match trouble {
            Trouble::GatewayOverload => 90,
            _ => 120,
        };
        Self {
            warm_up: 20,
            fault,
            recovery: 60,
        }
    }

    /// From the start to the end of the fault.
    #[must_use]
    pub const fn window(self) -> (Duration, Duration) {
        (
            Duration::from_secs(self.warm_up),
            Duration::from_secs(self.warm_up + self.fault),
        )
    }

    /// All of it.
    #[must_use]
    pub const fn length(self) -> Duration {
        Duration::from_secs(self.warm_up + self.fault + self.recovery)
    }
}

impl fmt::Display for Phases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}+{}s", self.warm_up, self.fault, self.recovery)
    }
}

impl std::str::FromStr for Phases {
    type Err = anyhow::Error;

    /// As it is displayed: `20+120+60s`, or without the unit.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || {
            anyhow::anyhow!(
                "`{text}` are not phases: write warm-up, fault and recovery as seconds, such as 20+120+60, with at least \
                 10 for the fault and an hour in all at the most"
            )
        };
        let parts: Vec<u64> = text
            .trim_end_matches('s')
            .split('+')
            .map(|part| part.parse().map_err(|_| wrong()))
            .collect::<Result<_, _>>()?;
        let [warm_up, fault, recovery] = parts[..] else {
            return Err(wrong());
        };
        let length = warm_up
            .checked_add(fault)
            .and_then(|sum| sum.checked_add(recovery));
        if fault < 10 || length.is_none_or(|length| length > 3600) {
            return Err(wrong());
        }
        Ok(Self {
            warm_up,
            fault,
            recovery,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_displayed_is_read_again() {
        let phases = Phases::of(Trouble::PaymentErrors);
        assert_eq!(phases.to_string().parse::<Phases>().unwrap(), phases);
        for text in [
            "",
            "20+120",
            "20+9+60",
            "1+2+3+4",
            "a+b+c",
            "3600+10+0",
            "18446744073709551615+10+1",
        ] {
            assert!(text.parse::<Phases>().is_err(), "{text}");
        }
        assert!("0+10+0".parse::<Phases>().is_ok() && "0+3600+0".parse::<Phases>().is_ok());
    }
}
