//! The page of speeds: its sections and their words.

use super::races::{LARGE, PATTERNS, PLAIN, Race, UNSEEN, UNSEEN_AGAIN, UNSEEN_LAST};

/// Each section's text and its races.
pub(super) const SECTIONS: &[(&str, &[Race])] = &[
    (REDUCED, PATTERNS),
    (SEEN, PLAIN),
    (NOT_SEEN, UNSEEN),
    (NOT_SEEN_AGAIN, UNSEEN_AGAIN),
    (NOT_SEEN_LAST, UNSEEN_LAST),
    (LONG_RUNS, LARGE),
];

pub(super) const HEAD: &str = "\
# The model checker beside Storm

Written by `cargo xtask evidence model-speed`; not compared by a test, because speed differs between machines. Both run on the same files, one
after the other, on one thread. Times are seconds of processor time, because the machine may be busy with other work: ours are those of
the whole command from its start to its end, Storm's those of building and solving alone, without the start of Python. What takes
less than two seconds is measured three times, and the least counts. Storm has its own default precision of 10⁻⁶, ours is 10⁻⁹ or better;
*apart* is the relative difference of the two values. The ratio is Storm's time over ours: above 1 we are faster. Where Storm has no answer
after a minute the ratio is what it is at least.

Where nothing can be reduced, Storm is also asked with its sound setting, which proves its precision of 10⁻⁶. There we want to be faster than
that, to need at most 1.2 times the time of its default (a ratio of 0.83), and less memory than both.
";

const REDUCED: &str = "
## The resiliency patterns

Storm's figures for the circuit breakers as written are given, not measured here: 900 s and 17 GB for the static one (`--all` runs it),
and for the dynamic one no machine that we know of can build the chain.

";

const SEEN: &str = "
## Where nothing can be reduced

These models were looked at while the solver was written and its constants were set. Of the reward `R{\"waiting\"}=? [ I=10 ]` of the shared tools
Storm says 0.50579, its own rewards up to 9.99 and 10.01 differ by 0.50606 for a unit of time, and ours is 0.50606.

";

const NOT_SEEN: &str = "
## Where nothing can be reduced, on models not seen before

These models were written after the solver's constants were set, and their questions chosen before the first race. In that race, on a
busy machine, twenty questions were answered at 0.85 to 592 times Storm's speed, and one fell short: `P=? [ g>2 U \"foxless\" ]` at 0.47.
The solver was changed afterwards, in how gradients begin and in which state a long run is counted from, so the table below is not
of an unseen solver any more. Of `R{\"animals\"}=? [ I=5 ]` Storm says 20.85, its own rewards up to 4.99 and 5.01 differ by 24.266 for a unit of time,
and ours is 24.266.

";

const NOT_SEEN_AGAIN: &str = "
## Once more, after the change

These models were written after that change. In their first race, on a busy machine, the ratios were 1.5 to 16. The solver was changed afterwards:
where sweeps show that gradients settle soon, these are tried before an elimination is planned. Its constant was set on the models of this page.

";

const NOT_SEEN_LAST: &str = "
## Two more kinds

A control loop with rates six orders apart, and readers that fetch a file from each other. Models and questions were written before the
first race.

";

const LONG_RUNS: &str = "
## Large chains

Long runs of these models were looked at while the solver for components of more than a hundred thousand states was written; the other
questions were not.

";

pub(super) const COLUMNS: &str = "\
| model | question | our states | our s | our GB | Storm's states | Storm's s | Storm's GB | apart | ratio | wanted |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
";

pub(super) const SOUND_COLUMNS: &str = "\
| model | question | our states | our s | our GB | Storm's states | Storm's s | Storm's GB | apart | ratio | wanted | sound s | sound GB | ratio |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
";
