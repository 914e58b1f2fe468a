//! `retryguard predict`: what retries do to a target, from closed forms, before anything is built.

use retryguard_tune::Prediction;

/// Predict rejection, retries, load and delay from closed forms, and where to set the guard.
///
/// Above capacity (load > 1) the forms are those of pure overload; up to capacity rejections come from a full
/// buffer (M/M/1/m). Delays are in units of the first wait, which doubles with every retry.
///
/// Exits with 0, or with 2 when a number cannot be used.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  retryguard predict --load 1.5 --attempts 5
  retryguard predict --load 0.9 --attempts 3 --buffer 20 --json")]
pub(crate) struct Arguments {
    /// Offered calls over the target's capacity: 1.5 is 150 %.
    #[arg(long, value_name = "RHO", allow_negative_numbers = true)]
    load: f64,
    /// Attempts that a call may make, the first included.
    #[arg(long, value_name = "K", allow_negative_numbers = true)]
    attempts: u32,
    /// Calls that the target holds at once, waiting and in service: the m of M/M/1/m.
    #[arg(long, value_name = "M", default_value_t = 50, allow_negative_numbers = true)]
    buffer: u32,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

impl Arguments {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let prediction = Prediction::new(self.load, self.attempts, self.buffer)?;
        crate::output::print(&if self.json {
            format!("{:#}\n", prediction.as_json())
        } else {
            prediction.as_text()
        })
    }
}
