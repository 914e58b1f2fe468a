//! The numbers that the forms take, checked once.

use thiserror::Error;

/// Why a number cannot be used, and what to give instead.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
#[non_exhaustive]
pub enum BadInput {
    /// A load that is not a positive finite number.
    #[error("the load {0} is not a positive number: give offered calls over capacity, such as 1.5 for 150 %")]
    Load(f64),
    /// No attempt at all, or so many that a doubled wait is too large for a double.
    #[error("{0} attempts: give 1 (no retry) to {max}, counting the first attempt", max = Attempts::MOST)]
    Attempts(u32),
    /// A target that can hold nothing, or too much to add up.
    #[error(
        "a buffer of {0}: give the calls that the target holds at once, waiting and in service, 1 to {max}",
        max = Buffer::LARGEST
    )]
    Buffer(u32),
    /// More servers than the system has places.
    #[error("{servers} servers in a system of {places} places: give 1 to {places} servers")]
    Servers {
        /// Servers asked for.
        servers: u32,
        /// Places, those in service included.
        places: u32,
    },
    /// The forms of overload were asked about a target that is not overloaded.
    #[error("a load of {0} is not an overload: use the forms of a finite buffer at loads up to 1")]
    NotOverloaded(f64),
    /// A share outside 0 to 1.
    #[error("{0} is not a share: give a number from 0 to 1")]
    Share(f64),
}

/// Offered calls over capacity, ρ = λ/μ, before any retry.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Load(f64);

impl Load {
    /// As many calls as can be served.
    pub const CAPACITY: Self = Self(1.0);

    /// A load above zero.
    ///
    /// # Errors
    /// [`BadInput::Load`] for zero, a negative number, an infinity or no number.
    pub fn new(load: f64) -> Result<Self, BadInput> {
        if load.is_finite() && load > 0.0 {
            Ok(Self(load))
        } else {
            Err(BadInput::Load(load))
        }
    }

    /// For constants of this module.
    pub(super) const fn of(load: f64) -> Self {
        Self(load)
    }

    /// The number.
    #[must_use]
    pub fn get(self) -> f64 {
        self.0
    }
}

/// Attempts that a call may make, the first included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempts(u32);

impl Attempts {
    /// The wait before attempt 1001 would be 2^1000 first waits: the last power of ten below infinity.
    pub const MOST: u32 = 1000;

    /// At least one attempt.
    ///
    /// # Errors
    /// [`BadInput::Attempts`] for zero or more than [`Attempts::MOST`].
    pub fn new(attempts: u32) -> Result<Self, BadInput> {
        if (1..=Self::MOST).contains(&attempts) {
            Ok(Self(attempts))
        } else {
            Err(BadInput::Attempts(attempts))
        }
    }

    /// The number.
    #[must_use]
    pub fn get(self) -> u32 {
        self.0
    }
}

/// Calls that a target holds at once, waiting and in service: the m of M/M/1/m.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buffer(u32);

impl Buffer {
    /// Far beyond any queue that is still worth waiting in.
    pub const LARGEST: u32 = 1_000_000;

    /// At least the call in service.
    ///
    /// # Errors
    /// [`BadInput::Buffer`] for zero or more than [`Buffer::LARGEST`].
    pub fn new(places: u32) -> Result<Self, BadInput> {
        if (1..=Self::LARGEST).contains(&places) {
            Ok(Self(places))
        } else {
            Err(BadInput::Buffer(places))
        }
    }

    /// The number.
    #[must_use]
    pub fn get(self) -> u32 {
        self.0
    }
}
