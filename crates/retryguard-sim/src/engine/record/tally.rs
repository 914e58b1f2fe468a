//! What every request adds to.

/// The counts of one service that change with every request, side by side: a request looks them up once.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::engine) struct Tally {
    /// Requests in the present step of the time line, and those among them that were sent again.
    pub(super) step: (u32, u32),
    pub(super) attempts: u64,
    pub(super) originals: u64,
    pub(super) retries: u64,
    pub(super) rejections: u64,
    pub(super) succeeded: u64,
    pub(super) failed: u64,
}

impl Tally {
    /// A request has come.
    #[inline]
    pub(in crate::engine) fn on_attempt(&mut self, again: bool, original: bool, counted: bool) {
        self.step.0 += 1;
        self.step.1 += u32::from(again);
        self.attempts += u64::from(counted);
        self.retries += u64::from(counted & again);
        self.originals += u64::from(counted & original);
    }

    /// It was turned away.
    #[inline]
    pub(in crate::engine) fn on_rejection(&mut self, counted: bool) {
        self.rejections += u64::from(counted);
    }

    /// It was worked on.
    #[inline]
    pub(super) fn on_served(&mut self, success: bool, counted: bool) {
        self.succeeded += u64::from(counted & success);
        self.failed += u64::from(counted & !success);
    }
}
