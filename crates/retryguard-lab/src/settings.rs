//! What a system is started with. All durations are as described; the time scale shortens them.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{Configuration, Name, TimeScale};

/// What a system is started with.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What it is called in reports.
    pub title: String,
    /// The policy's text, at scale one.
    pub policy: String,
    /// The factor on all durations.
    pub scale: TimeScale,
    /// Where all chance comes from.
    pub seed: u64,
    /// What payments can do at once.
    pub payments: Capacity,
    /// What inventory can do at once.
    pub inventory: Capacity,
    /// How long a payment takes, and how far that spreads.
    pub payment_time: Work,
    /// How long a reservation takes while its rows are locked.
    pub reservation_time: Work,
    /// The connections of one service's HTTP client, which all that it calls share.
    pub connections: usize,
    /// How many kinds of goods there are; fewer of them meet more often.
    pub goods: u32,
    /// Where the services listen; a free port of the loopback interface each where there is none.
    pub addresses: Addresses,
    /// Where the databases are kept; in a temporary folder, removed at the end, where there is none.
    pub folder: Option<PathBuf>,
    /// The token of the admin interface; a random one where there is none.
    pub token: Option<String>,
    /// Where the services keep what they write.
    pub backing: Backing,
}

/// Where the services keep what they write.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Backing {
    /// A SQLite file a service.
    #[default]
    Embedded,
    /// PostgreSQL and Redis.
    #[cfg(feature = "real")]
    Real(Real),
}

/// Real databases.
#[cfg(feature = "real")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Real {
    /// The address of PostgreSQL.
    pub postgres: String,
    /// The address of Redis.
    pub redis: String,
    /// The schema in PostgreSQL; made where it is missing.
    pub schema: String,
}

/// Workers, and places for requests that wait for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Capacity {
    /// How many requests are worked on at once.
    pub workers: usize,
    /// How many may wait; the next is answered with 503.
    pub queue: usize,
}

/// A duration of work that spreads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Work {
    /// The usual time.
    pub usual: Duration,
    /// Uniform from `1 - spread` to `1 + spread` times that.
    pub spread: f64,
}

/// Where each service listens, in the order of `Name::ALL`; port 0 for any free one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses(pub [SocketAddr; 5]);

impl Default for Addresses {
    fn default() -> Self {
        Self([SocketAddr::from(([127, 0, 0, 1], 0)); 5])
    }
}

impl Addresses {
    /// Says where a service is.
    pub fn set(&mut self, name: Name, address: SocketAddr) {
        let place = Name::ALL.iter().position(|known| *known == name).unwrap_or(0);
        self.0[place] = address;
    }

    /// One entry as a command line gives it: `orders=127.0.0.1:8001`.
    ///
    /// # Errors
    /// Where it is not of this form, or the address is not of this machine.
    pub fn entry(text: &str) -> Result<(Name, SocketAddr), String> {
        let (name, address) = text
            .split_once('=')
            .ok_or_else(|| "write it as NAME=ADDRESS, such as orders=127.0.0.1:8001".to_owned())?;
        let name = name.parse::<Name>().map_err(|error| error.to_string())?;
        let address: SocketAddr = address
            .parse()
            .map_err(|_| format!("`{address}` is not an address: write one such as 127.0.0.1:8001"))?;
        if !address.ip().is_loopback() {
            return Err("the laboratory listens on this machine only: give a loopback address".to_owned());
        }
        Ok((name, address))
    }
}

impl Settings {
    /// The system as it is described, under one of the configurations.
    #[must_use]
    pub fn described(configuration: Configuration) -> Self {
        Self {
            title: format!("{configuration}: {}", configuration.title()),
            policy: configuration.policy().to_owned(),
            scale: TimeScale::ONE,
            seed: 1,
            payments: Capacity {
                workers: 1000,
                queue: 0,
            },
            inventory: Capacity {
                workers: 1000,
                queue: 0,
            },
            payment_time: Work {
                usual: Duration::from_millis(100),
                spread: 0.2,
            },
            reservation_time: Work {
                usual: Duration::from_millis(20),
                spread: 0.2,
            },
            connections: 100,
            goods: 1000,
            addresses: Addresses::default(),
            folder: None,
            token: None,
            backing: Backing::Embedded,
        }
    }
}
