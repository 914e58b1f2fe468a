//! A port of ours.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
};

use retryguard_policy::reading::{Block, Kind, Mistakes, wrong};

use crate::config::Place;

/// Where to listen, and who may ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    /// The address and port.
    pub address: SocketAddr,
    /// TLS; plain text where there is none.
    pub tls: Option<Tls>,
    /// The file with the token that a request must carry as `Authorization: Bearer …`.
    pub token_file: Option<PathBuf>,
}

/// A certificate and its key, as PEM files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// The chain of certificates.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
    /// The authority that must have signed a client's certificate; clients need none where there is no such file.
    pub client_ca: Option<PathBuf>,
}

impl Listen {
    /// Whether clients on other machines can reach this port at `address` without showing who they are.
    #[must_use]
    pub fn exposed(&self, address: IpAddr) -> bool {
        let mutual = self.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
        !address.is_loopback() && self.token_file.is_none() && !mutual
    }

    /// On an address that stands in our own source, reachable without a token.
    pub(crate) fn at(address: &str) -> Self {
        Self {
            address: address.parse().expect("defaults are addresses"),
            tls: None,
            token_file: None,
        }
    }

    /// The keys `listen`, `tls` and `tokenFile` of a block that has no others.
    pub(crate) fn read(
        mut block: Block<'_>,
        default: &str,
        place: &Place<'_>,
        mistakes: &mut Mistakes,
    ) -> Option<Self> {
        let found = Self::of(&mut block, default, place, mistakes);
        block.close(mistakes);
        found
    }

    /// The same keys of a block that has others too.
    pub(crate) fn of(
        block: &mut Block<'_>,
        default: &str,
        place: &Place<'_>,
        mistakes: &mut Mistakes,
    ) -> Option<Self> {
        let wanted = "an address and a port, such as 127.0.0.1:9464";
        let mut at = block.at();
        let node = block.take("listen");
        block.describe("listen", Kind::Text);
        let address = match node {
            None => default.parse().ok(),
            Some(node) => {
                at = node.at;
                let found = match &node.body {
                    retryguard_policy::reading::Body::Scalar { text, .. } => text.parse().ok(),
                    _ => None,
                };
                if found.is_none() {
                    wrong(node, "listen", wanted, mistakes);
                }
                found
            }
        };
        if let Some(address) = address {
            place.listens(address, at, mistakes);
        }
        let tls = match block.block("tls", mistakes) {
            None => Some(None),
            Some(mut tls) => {
                let mut file = |key| {
                    let (text, _) = tls.need_text(key, "the path of a PEM file", mistakes)?;
                    Some(place.path(text))
                };
                let (certificate, key) = (file("certificate"), file("key"));
                let client_ca = place.pem_file("clientCa", &mut tls, mistakes);
                tls.close(mistakes);
                certificate.zip(key).map(|(certificate, key)| {
                    Some(Tls {
                        certificate,
                        key,
                        client_ca,
                    })
                })
            }
        };
        let token_file = place.token_file(block, mistakes);
        Some(Self {
            address: address?,
            tls: tls?,
            token_file,
        })
    }
}
