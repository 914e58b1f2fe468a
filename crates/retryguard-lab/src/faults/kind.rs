use std::{fmt, str::FromStr};

use retryguard_policy::reading::nearest;
use serde::{Deserialize, Serialize};

use crate::name::Name;

/// What can be broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A share of all payments is answered with 503, whatever the load.
    PaymentErrors,
    /// Payments take three seconds longer, a share of them twenty.
    PaymentSlow,
    /// Reservations hold the rows that they lock for two seconds more.
    InventoryLock,
    /// Payment errors, and users that retry at once.
    RetryStorm,
    /// A spike to 500 users.
    GatewayOverload,
    /// The process is gone; its end brings it back.
    Kill,
    /// A share of the answers is a torn connection, after the work was done.
    Reset,
    /// Answers come a byte at a time.
    Drip,
    /// Only a share of the workers is left.
    CapacityLoss,
}

/// Something broken.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fault {
    /// What.
    #[serde(rename = "fault")]
    pub kind: Kind,
    /// Where.
    pub service: Name,
    /// How much of it: the share of requests that meet it, or of workers that are left.
    pub share: f64,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::PaymentErrors,
        Self::PaymentSlow,
        Self::InventoryLock,
        Self::RetryStorm,
        Self::GatewayOverload,
        Self::Kill,
        Self::Reset,
        Self::Drip,
        Self::CapacityLoss,
    ];

    /// The name on the command line and in the admin interface.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PaymentErrors => "payment_errors",
            Self::PaymentSlow => "payment_slow",
            Self::InventoryLock => "inventory_lock",
            Self::RetryStorm => "retry_storm",
            Self::GatewayOverload => "gateway_overload",
            Self::Kill => "kill",
            Self::Reset => "reset",
            Self::Drip => "drip",
            Self::CapacityLoss => "capacity_loss",
        }
    }

    /// Where it strikes unless told otherwise.
    #[must_use]
    pub const fn service(self) -> Name {
        match self {
            Self::InventoryLock => Name::Inventory,
            Self::GatewayOverload => Name::Gateway,
            _ => Name::Payments,
        }
    }

    /// Whether it can strike any service.
    #[must_use]
    pub const fn is_movable(self) -> bool {
        matches!(self, Self::Kill | Self::Reset | Self::Drip | Self::CapacityLoss)
    }

    /// How much of it there is unless told otherwise.
    #[must_use]
    pub const fn share(self) -> f64 {
        match self {
            Self::PaymentErrors | Self::RetryStorm | Self::Reset => 0.2,
            // The described spikes have no share; one in twenty is ours, as in the simulator's worlds.
            Self::PaymentSlow => 0.05,
            Self::CapacityLoss => 0.2,
            Self::InventoryLock | Self::GatewayOverload | Self::Kill | Self::Drip => 1.0,
        }
    }
}

impl Fault {
    /// As it is described.
    #[must_use]
    pub const fn of(kind: Kind) -> Self {
        Self {
            kind,
            service: kind.service(),
            share: kind.share(),
        }
    }

    /// At another service.
    ///
    /// # Errors
    /// Where this kind cannot strike there.
    pub fn at(mut self, service: Name) -> anyhow::Result<Self> {
        if service != self.kind.service() && !self.kind.is_movable() {
            anyhow::bail!(
                "{} strikes {} and no other service",
                self.kind,
                self.kind.service()
            );
        }
        if self.kind == Kind::CapacityLoss && !matches!(service, Name::Payments | Name::Inventory) {
            anyhow::bail!("{service} has no workers to lose: only payments and inventory have");
        }
        self.service = service;
        Ok(self)
    }

    /// More or less of it.
    ///
    /// # Errors
    /// Where the share is none.
    pub fn share(mut self, share: f64) -> anyhow::Result<Self> {
        if !(0.0..=1.0).contains(&share) {
            anyhow::bail!("a share of {share} is none: it lies between 0 and 1");
        }
        self.share = share;
        Ok(self)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Kind {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.as_str() == text)
            .ok_or_else(|| {
                let known: Vec<&str> = Self::ALL.iter().map(|kind| kind.as_str()).collect();
                let near = nearest(text, known.iter().copied())
                    .map_or_else(String::new, |near| format!("did you mean {near}? "));
                anyhow::anyhow!(
                    "`{text}` is not a fault: {near}choose one of {}",
                    known.join(", ")
                )
            })
    }
}
