//! The keys of the actuator `grpc-xds`.

use std::time::Duration;

use retryguard_policy::reading::{Block, Mistakes};

use crate::config::Place;
use crate::config::listen::Listen;

/// Where gRPC clients ask for their routes by default: from this machine only.
pub const ADDRESS: &str = "127.0.0.1:18100";
/// The longest name of a service or a host.
pub const LONGEST_NAME: usize = 253;
/// gRPC makes at most five attempts, whatever is configured.
pub const MOST_RETRIES: u32 = 4;
/// gRPC's C core (1.85) forgets some retries whose wait is about a millisecond: such a call ends with its deadline.
pub const SHORTEST_BACKOFF: Duration = Duration::from_millis(10);
/// The status codes that gRPC clients retry when they are asked to by xDS; others are ignored by them.
pub const CODES: [&str; 5] = [
    "cancelled",
    "deadline-exceeded",
    "internal",
    "resource-exhausted",
    "unavailable",
];

/// The discovery server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrpcXdsSettings {
    /// Where to listen, and who may ask.
    pub listen: Listen,
    /// How long clients may say what they hold, after a start, before anything is sent to them.
    pub learn_for: Duration,
    /// How long a change waits for the clients' word that they have it.
    pub confirm_within: Duration,
}

/// A service as its clients name it, where it is, and how its calls are retried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrpcXdsTarget {
    /// What clients write after `xds:///`; the target's own name where none is written.
    pub service: String,
    /// A name that DNS resolves, or an address.
    pub host: String,
    /// The port of the service.
    pub port: u16,
    /// How often a call is sent again at most.
    pub retries: u32,
    /// On which status codes.
    pub retry_on: Vec<String>,
    /// The first wait; each later one is twice as long, and all are jittered by the client.
    pub backoff: Duration,
    /// The longest wait.
    pub longest_backoff: Duration,
}

impl GrpcXdsSettings {
    pub(super) fn read(mut block: Block<'_>, place: &Place<'_>, mistakes: &mut Mistakes) -> Option<Self> {
        let listen = Listen::of(&mut block, ADDRESS, place, mistakes);
        let span = Duration::from_millis(100)..=Duration::from_secs(10);
        let learn_for = block.duration("learnFor", span.clone(), mistakes);
        let confirm_within = block.duration("confirmWithin", span, mistakes);
        block.close(mistakes);
        Some(Self {
            listen: listen?,
            // A client that has lost its server asks again after one to two seconds at first.
            learn_for: learn_for.unwrap_or(Duration::from_secs(3)),
            confirm_within: confirm_within.unwrap_or(Duration::from_secs(2)),
        })
    }

    /// The server of one shard: the next port for each. None where there is no such port.
    pub(in crate::config) fn of_shard(&self, number: usize) -> Option<Self> {
        let mut own = self.clone();
        let port = self.listen.address.port();
        if port == 0 {
            return None;
        }
        let port = port.checked_add(u16::try_from(number).ok()?)?;
        own.listen.address.set_port(port);
        Some(own)
    }
}

impl GrpcXdsTarget {
    pub(in crate::config) fn read(
        name: &str,
        block: &mut Block<'_>,
        mistakes: &mut Mistakes,
    ) -> Option<Self> {
        let at = block.at();
        let service = block
            .text("service", "the name that clients write after xds:///", mistakes)
            .unwrap_or(name);
        if !is_name(service) {
            mistakes.add(
                at,
                format!("`{service}` is not a name that a client can write after xds:///"),
                format!("write `service:` with 1 to {LONGEST_NAME} letters, digits and any of . _ : -"),
            );
        }
        let wanted = "where the service is, such as reviews.shop.svc:50051";
        let address = block.text("address", wanted, mistakes);
        if address.is_none() {
            let _ = block.need("address", wanted, mistakes);
        }
        let retries = block.count("retries", 1..=MOST_RETRIES, mistakes).unwrap_or(3);
        let retry_on = block.texts("retryOn", "status codes, such as [unavailable]", mistakes);
        let retry_on = retry_on.unwrap_or_else(|| vec!["unavailable"]);
        let unknown = retry_on.iter().find(|code| !CODES.contains(code));
        if let Some(code) = unknown {
            mistakes.add(
                at,
                format!("gRPC clients do not retry on `{code}`"),
                format!("write some of {}", CODES.join(", ")),
            );
        }
        let span = SHORTEST_BACKOFF..=Duration::from_secs(60);
        let backoff = block.duration("backoff", span.clone(), mistakes);
        let backoff = backoff.unwrap_or(Duration::from_millis(25));
        let longest_backoff = block.duration("longestBackoff", span, mistakes);
        let longest_backoff = longest_backoff.unwrap_or(backoff * 10);
        if longest_backoff < backoff {
            mistakes.add(
                at,
                "`longestBackoff` is shorter than `backoff`",
                "write a longer one, or none for ten times `backoff`",
            );
        }
        let place = address.and_then(host_and_port);
        if let (Some(address), None) = (address, place) {
            mistakes.add(
                at,
                format!("`{address}` is not an address of a service"),
                "write a host and a port, such as reviews.shop.svc:50051 or 10.0.0.7:50051",
            );
        }
        let (host, port) = place?;
        Some(Self {
            service: service.to_owned(),
            host: host.to_owned(),
            port,
            retries,
            retry_on: retry_on.into_iter().map(str::to_owned).collect(),
            backoff,
            longest_backoff,
        })
    }
}

fn is_name(name: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
    !name.is_empty() && name.len() <= LONGEST_NAME && name.bytes().all(good)
}

/// The brackets around an IPv6 address are not part of it.
fn host_and_port(text: &str) -> Option<(&str, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let port = port.parse().ok().filter(|port| *port > 0)?;
    let host = match host.strip_prefix('[') {
        Some(rest) => rest
            .strip_suffix(']')
            .filter(|host| host.parse::<std::net::Ipv6Addr>().is_ok())?,
        None => Some(host).filter(|host| is_name(host) && !host.contains([':', '_']))?,
    };
    Some((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_host_and_a_port() {
        for (text, wanted) in [
            ("reviews.shop.svc:50051", ("reviews.shop.svc", 50051)),
            ("10.0.0.7:1", ("10.0.0.7", 1)),
            ("[::1]:65535", ("::1", 65535)),
        ] {
            assert_eq!(host_and_port(text), Some(wanted));
        }
        for bad in [
            "",
            "reviews",
            ":1",
            "reviews:0",
            "reviews:65536",
            "a b:1",
            "::1:50051",
            "[a]:1",
            "[]:1",
            "a/b:1",
        ] {
            assert_eq!(host_and_port(bad), None, "{bad}");
        }
        let longest = "x".repeat(LONGEST_NAME);
        assert!(is_name(&longest) && !is_name(&format!("{longest}x")));
    }
}
