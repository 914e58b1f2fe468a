//! The five services and which service calls which.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// A service of the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Name {
    /// What users call.
    Gateway,
    /// Takes orders and has them reserved and paid.
    Orders,
    /// Charges.
    Payments,
    /// Reserves stock.
    Inventory,
    /// Tells customers.
    Notifications,
}

impl Name {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Gateway,
        Self::Orders,
        Self::Payments,
        Self::Inventory,
        Self::Notifications,
    ];

    /// The name in policies, metrics and reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::Orders => "orders",
            Self::Payments => "payments",
            Self::Inventory => "inventory",
            Self::Notifications => "notifications",
        }
    }

    /// The services that it calls.
    #[must_use]
    pub const fn calls(self) -> &'static [Self] {
        match self {
            Self::Gateway => &[Self::Orders],
            Self::Orders => &[Self::Inventory, Self::Payments, Self::Notifications],
            Self::Payments | Self::Inventory | Self::Notifications => &[],
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Name {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|name| name.as_str() == text)
            .ok_or_else(|| {
                anyhow::anyhow!(
                    "`{text}` is not a service: choose gateway, orders, payments, inventory or notifications"
                )
            })
    }
}
