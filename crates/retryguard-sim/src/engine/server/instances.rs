//! An instance for every request.

use retryguard_core::Instant;

#[derive(Debug)]
pub(in crate::engine) struct Instances {
    pub(in crate::engine) most: u32,
    new_per_ten_seconds: u32,
    /// Instances that have been started and wait for a request, the last used on top.
    idle: Vec<u32>,
    started: u32,
    window: u64,
    started_in_window: u32,
}

/// What a request gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine) enum InstanceStart {
    Warm(u32),
    Cold(u32),
    Refused,
}

impl Instances {
    pub(super) fn new(most: u32, new_per_ten_seconds: u32) -> Self {
        Self {
            most,
            new_per_ten_seconds,
            idle: Vec::new(),
            started: 0,
            window: 0,
            started_in_window: 0,
        }
    }

    pub(in crate::engine) fn has_room(&mut self, busy: u32, now: Instant) -> bool {
        self.turn(now);
        busy < self.most && (!self.idle.is_empty() || self.started_in_window < self.new_per_ten_seconds)
    }

    pub(in crate::engine) fn take(&mut self, busy: u32, now: Instant) -> InstanceStart {
        if !self.has_room(busy, now) {
            return InstanceStart::Refused;
        }
        if let Some(instance) = self.idle.pop() {
            return InstanceStart::Warm(instance);
        }
        self.started_in_window += 1;
        self.started += 1;
        InstanceStart::Cold(self.started - 1)
    }

    pub(in crate::engine) fn give_back(&mut self, instance: u32) {
        self.idle.push(instance);
    }

    fn turn(&mut self, now: Instant) {
        let window = now.as_nanos() / 10_000_000_000;
        if window != self.window {
            self.window = window;
            self.started_in_window = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_are_limited_and_instances_used_again() {
        let mut instances = Instances::new(3, 2);
        assert_eq!(instances.take(0, Instant::ZERO), InstanceStart::Cold(0));
        assert_eq!(instances.take(1, Instant::ZERO), InstanceStart::Cold(1));
        assert_eq!(instances.take(2, Instant::ZERO), InstanceStart::Refused);
        instances.give_back(0);
        assert_eq!(instances.take(1, Instant::ZERO), InstanceStart::Warm(0));
        assert_eq!(instances.take(2, Instant::from_secs(10)), InstanceStart::Cold(2));
        assert_eq!(instances.take(3, Instant::from_secs(10)), InstanceStart::Refused);
    }
}
