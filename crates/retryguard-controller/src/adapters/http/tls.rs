//! TLS for our ports.

use std::{
    fs::File,
    io::Read as _,
    path::Path,
    sync::{Arc, Once},
};

use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::WebPkiClientVerifier,
};

use crate::adapters::start_error::StartError;
use crate::config::listen::Tls;
use crate::secret::must_be_regular;

/// The server side of TLS, for HTTP/1.1. With `clientCa`, a client needs a certificate that this authority signed.
pub(crate) fn server_config(what: &'static str, tls: &Tls) -> Result<ServerConfig, StartError> {
    let unusable = |path: &Path, reason: String| StartError::File {
        what,
        path: path.display().to_string(),
        reason,
    };
    let chain = certificates(&tls.certificate).map_err(|reason| unusable(&tls.certificate, reason))?;
    let key = pem(&tls.key).map_err(|reason| unusable(&tls.key, reason))?;
    let key = PrivateKeyDer::from_pem_slice(&key).map_err(|error| unusable(&tls.key, error.to_string()))?;
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| StartError::Settings {
            what,
            reason: error.to_string(),
        })?;
    let builder = match &tls.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(path).map_err(|reason| unusable(path, reason))? {
                roots
                    .add(certificate)
                    .map_err(|error| unusable(path, error.to_string()))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .build()
                .map_err(|error| unusable(path, error.to_string()))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder.with_single_cert(chain, key).map_err(|error| {
        unusable(
            &tls.key,
            format!("{error}; the key must belong to the certificate"),
        )
    })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// The certificates of a PEM file, at least one.
pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&pem(path)?)
        .collect::<Result<_, _>>()
        .map_err(|error| error.to_string())?;
    if all.is_empty() {
        return Err("no certificate in it".to_owned());
    }
    Ok(all)
}

/// The largest PEM file that is read. The authorities that a system trusts have a quarter of a MiB.
const LARGEST_PEM: u64 = 4 * 1024 * 1024;

/// A PEM file. A wrong path can name a pipe, which would be waited for, or a device without an end.
pub(crate) fn pem(path: &Path) -> Result<Vec<u8>, String> {
    must_be_regular(path).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(LARGEST_PEM + 1).read_to_end(&mut bytes))
        .map_err(|error| error.to_string())?;
    if bytes.len() as u64 > LARGEST_PEM {
        return Err("too large for certificates or a key".to_owned());
    }
    Ok(bytes)
}

/// One implementation of TLS for the whole program, whichever feature brought another one in.
pub(crate) fn choose_tls() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Fails only where the program has chosen one already.
        let _ = ring::default_provider().install_default();
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device without an end was read until the memory was full.
    #[test]
    fn a_file_without_an_end_is_no_certificate() {
        let error = certificates(Path::new("/dev/zero")).unwrap_err();
        assert!(error.contains("too large"), "{error}");
        let error = pem(Path::new("/dev/zero")).unwrap_err();
        assert!(error.contains("too large"), "{error}");
    }
}
