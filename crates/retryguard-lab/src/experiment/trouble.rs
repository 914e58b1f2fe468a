use std::{fmt, str::FromStr};

use retryguard_policy::reading::nearest;

use crate::{
    faults::{Fault, Kind},
    name::Name,
};

/// What an experiment breaks: nothing, or one of the five described faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Trouble {
    /// Nothing: what the others are compared with.
    None,
    /// See [`Kind::PaymentErrors`].
    PaymentErrors,
    /// See [`Kind::PaymentSlow`].
    PaymentSlow,
    /// See [`Kind::InventoryLock`].
    InventoryLock,
    /// See [`Kind::RetryStorm`].
    RetryStorm,
    /// See [`Kind::GatewayOverload`].
    GatewayOverload,
}

impl Trouble {
    /// All of them, in the order of the report.
    pub const ALL: [Self; 6] = [
        Self::None,
        Self::PaymentErrors,
        Self::PaymentSlow,
        Self::InventoryLock,
        Self::RetryStorm,
        Self::GatewayOverload,
    ];

    const fn kind(self) -> Option<Kind> {
        match self {
            Self::None => None,
            Self::PaymentErrors => Some(Kind::PaymentErrors),
            Self::PaymentSlow => Some(Kind::PaymentSlow),
            Self::InventoryLock => Some(Kind::InventoryLock),
            Self::RetryStorm => Some(Kind::RetryStorm),
            Self::GatewayOverload => Some(Kind::GatewayOverload),
        }
    }

    /// The fault as it is described.
    #[must_use]
    pub fn fault(self) -> Option<Fault> {
        self.kind().map(Fault::of)
    }

    /// The name on the command line and in reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self.kind() {
            None => "none",
            Some(kind) => kind.as_str(),
        }
    }

    /// The service that amplification and breakers are looked at for.
    #[must_use]
    pub const fn focus(self) -> Name {
        match self {
            Self::InventoryLock => Name::Inventory,
            _ => Name::Payments,
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Trouble {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|known| known.as_str() == text)
            .ok_or_else(|| {
                let known: Vec<&str> = Self::ALL.iter().map(|known| known.as_str()).collect();
                let near = nearest(text, known.iter().copied())
                    .map_or_else(String::new, |near| format!("did you mean {near}? "));
                anyhow::anyhow!(
                    "`{text}` is not a fault of the experiment: {near}choose one of {}",
                    known.join(", ")
                )
            })
    }
}
