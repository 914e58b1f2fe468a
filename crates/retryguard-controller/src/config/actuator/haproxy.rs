//! The keys of the actuator `haproxy`.

use retryguard_policy::reading::{Block, Mistakes};

use crate::config::Place;

/// The longest name of a backend, and the longest path.
pub const LONGEST_NAME: usize = 256;
/// The most HAProxys of one controller.
pub const MOST_SOCKETS: usize = 1_000;

/// The admin sockets of HAProxys, and the map that they look retries up in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HaproxySettings {
    /// Paths of Unix sockets, or `host:port`.
    pub sockets: Vec<String>,
    /// The path of the map, as it is written in HAProxy's configuration.
    pub map: String,
}

/// Which backends a target is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HaproxyTarget {
    /// Their names in HAProxy; the target's own name where none is written.
    pub backends: Vec<String>,
}

impl HaproxySettings {
    pub(super) fn read(mut block: Block<'_>, _place: &Place<'_>, mistakes: &mut Mistakes) -> Option<Self> {
        let at = block.at();
        let wanted = "admin sockets, such as [/run/haproxy/admin.sock]";
        let sockets = block.texts("sockets", wanted, mistakes);
        if sockets.is_none() {
            let _ = block.need("sockets", wanted, mistakes);
        }
        let map = block.text(
            "map",
            "the path of a map, such as /etc/haproxy/retryguard.map",
            mistakes,
        );
        if map.is_none() {
            let _ = block.need("map", "the path of a map", mistakes);
        }
        block.close(mistakes);
        let (sockets, map) = (sockets?, map?);
        for socket in &sockets {
            if !is_path(socket) && !is_host_and_port(socket) {
                mistakes.add(
                    at,
                    format!("`{socket}` is not an admin socket"),
                    "write a path such as /run/haproxy/admin.sock, or 127.0.0.1:9999",
                );
            }
        }
        if sockets.is_empty() || sockets.len() > MOST_SOCKETS {
            mistakes.add(
                at,
                format!("{} admin sockets", sockets.len()),
                format!("name 1 to {MOST_SOCKETS}"),
            );
        }
        if !is_path(map) {
            mistakes.add(
                at,
                format!("`{map}` is not a path of a map"),
                "write it as in HAProxy's configuration, such as /etc/haproxy/retryguard.map, without spaces",
            );
        }
        Some(Self {
            sockets: sockets.into_iter().map(str::to_owned).collect(),
            map: map.to_owned(),
        })
    }
}

impl HaproxyTarget {
    pub(in crate::config) fn read(
        name: &str,
        block: &mut Block<'_>,
        mistakes: &mut Mistakes,
    ) -> Option<Self> {
        let backends = block
            .texts("backends", "the names of backends", mistakes)
            .unwrap_or_else(|| vec![name]);
        for backend in &backends {
            if !is_backend(backend) {
                mistakes.add(
                    block.at(),
                    format!("`{backend}` is a name that no backend has"),
                    "name backends under `backends:` by letters, digits and any of . _ : -",
                );
            }
        }
        Some(Self {
            backends: backends.into_iter().map(str::to_owned).collect(),
        })
    }
}

/// HAProxy's own rule for the names of proxies. Commands are lines of words, so nothing else may go into one.
fn is_backend(name: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
    !name.is_empty() && name.len() <= LONGEST_NAME && name.bytes().all(good)
}

fn is_path(text: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_graphic() && !b";\\\"'#".contains(&byte);
    text.starts_with('/') && text.len() <= LONGEST_NAME && text.bytes().all(good)
}

fn is_host_and_port(text: &str) -> bool {
    text.rsplit_once(':').is_some_and(|(host, port)| {
        let good = |byte: u8| byte.is_ascii_alphanumeric() || b".-[]:".contains(&byte);
        !host.is_empty() && host.bytes().all(good) && port.parse::<u16>().is_ok_and(|port| port > 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_be_commands_are_refused() {
        for good in ["reviews", "a.b_c:d-1"] {
            assert!(is_backend(good), "{good}");
        }
        for bad in ["", "a b", "a;shutdown", "a\nb", "a/b", "ä"] {
            assert!(!is_backend(bad), "{bad}");
        }
        assert!(is_backend(&"x".repeat(LONGEST_NAME)));
        assert!(!is_backend(&"x".repeat(LONGEST_NAME + 1)));
    }

    #[test]
    fn sockets_are_paths_or_ports() {
        for good in [
            "/run/haproxy/admin.sock",
            "127.0.0.1:9999",
            "[::1]:9999",
            "proxy-1:9999",
        ] {
            assert!(is_path(good) || is_host_and_port(good), "{good}");
        }
        for bad in [
            "",
            "run/admin.sock",
            "/run/a b",
            "127.0.0.1",
            "127.0.0.1:0",
            ":9999",
            "/a;b",
        ] {
            assert!(!is_path(bad) && !is_host_and_port(bad), "{bad}");
        }
    }
}
