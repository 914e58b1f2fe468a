//! An authority, certificates of a server and of clients, and a client over TLS.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{net::SocketAddr, path::Path, sync::Arc};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
};
use retryguard_controller::config::listen::Tls;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// A certificate and its key, as PEM.
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// One authority with a server and a client, and a client of another authority.
pub(crate) struct Pki {
    pub(crate) authority: String,
    pub(crate) client: Pair,
    pub(crate) stranger: Pair,
    mutual: Tls,
}

impl Pki {
    pub(crate) fn new(folder: &Path) -> Self {
        let authority = authority();
        let server = signed(&authority, ExtendedKeyUsagePurpose::ServerAuth);
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let mutual = Tls {
            certificate: write("server.pem", &server.certificate),
            key: write("server-key.pem", &server.key),
            client_ca: Some(write("authority.pem", &authority.pem())),
        };
        Self {
            client: signed(&authority, ExtendedKeyUsagePurpose::ClientAuth),
            stranger: signed(&self::authority(), ExtendedKeyUsagePurpose::ClientAuth),
            authority: authority.pem(),
            mutual,
        }
    }

    /// A server's TLS that wants a certificate of this authority.
    pub(crate) fn mutual(&self) -> Tls {
        self.mutual.clone()
    }

    /// The status of a page; `None` where the connection is refused.
    pub(crate) async fn get(&self, address: SocketAddr, path: &str, client: Option<&Pair>) -> Option<u16> {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(self.authority.as_bytes()).unwrap())
            .unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match client {
            None => builder.with_no_client_auth(),
            Some(pair) => {
                let chain = vec![CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap()];
                let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        let stream = tokio::net::TcpStream::connect(address).await.ok()?;
        let name = ServerName::try_from("localhost").unwrap();
        let mut stream = connector.connect(name, stream).await.ok()?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.ok()?;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        answer.split(' ').nth(1)?.parse().ok()
    }
}

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // A certificate with the name of its issuer looks as if it had signed itself.
    params
        .distinguished_name
        .push(DnType::CommonName, "authority of a test");
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn signed(authority: &CertifiedIssuer<'static, KeyPair>, purpose: ExtendedKeyUsagePurpose) -> Pair {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.extended_key_usages = vec![purpose];
    let certificate = params.signed_by(&key, authority).unwrap();
    Pair {
        certificate: certificate.pem(),
        key: key.serialize_pem(),
    }
}
