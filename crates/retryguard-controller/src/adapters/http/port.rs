//! A port that answers HTTP: listening, TLS, tokens, limits.

use std::{net::SocketAddr, sync::Arc};

use axum::{
    Router,
    extract::{Request, State},
    http::{StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use axum_server::{
    Handle,
    tls_rustls::{RustlsAcceptor, RustlsConfig},
};

use crate::adapters::http::connections::{Connections, Limits, in_use};
use crate::adapters::http::tls::{choose_tls, server_config};
use crate::adapters::start_error::StartError;
use crate::config::listen::Listen;
use crate::secret::Secret;

/// A port that answers until it is dropped.
#[derive(Debug)]
pub struct Port {
    address: SocketAddr,
    handle: Handle<SocketAddr>,
}

impl Port {
    /// Where it listens; the port is chosen by the system where the configuration says 0.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.handle.shutdown();
    }
}

/// Requires the token of a configuration, where it has one.
pub(crate) fn guarded(what: &'static str, listen: &Listen, router: Router) -> Result<Router, StartError> {
    let Some(path) = &listen.token_file else {
        return Ok(router);
    };
    let token = Secret::from_file(path).map_err(|error| StartError::File {
        what,
        path: path.display().to_string(),
        reason: error.to_string(),
    })?;
    Ok(router.layer(middleware::from_fn_with_state(Arc::new(token), only_with_token)))
}

async fn only_with_token(State(token): State<Arc<Secret>>, request: Request, next: Next) -> Response {
    let given = request.headers().get(header::AUTHORIZATION);
    if given.is_some_and(|given| token.matches_bearer(given.as_bytes())) {
        return next.run(request).await;
    }
    let wants = [(header::WWW_AUTHENTICATE, "Bearer")];
    (StatusCode::UNAUTHORIZED, wants, "a token is needed\n").into_response()
}

/// Listens and answers, with TLS where the configuration has it.
pub(crate) async fn serve(
    what: &'static str,
    listen: &Listen,
    limits: Limits,
    router: Router,
) -> Result<Port, StartError> {
    let cannot = |error: std::io::Error| StartError::Listen {
        what,
        address: listen.address.to_string(),
        reason: error.to_string(),
    };
    let tls = match &listen.tls {
        None => None,
        Some(tls) => {
            choose_tls();
            Some(RustlsConfig::from_config(Arc::new(server_config(what, tls)?)))
        }
    };
    let listener = std::net::TcpListener::bind(listen.address).map_err(cannot)?;
    listener.set_nonblocking(true).map_err(cannot)?;
    let address = listener.local_addr().map_err(cannot)?;
    warn_if_exposed(what, address, listen);
    let connections = Connections::new(limits);
    let handle = Handle::new();
    let service = router.layer(middleware::from_fn(in_use)).into_make_service();
    let server = axum_server::from_tcp(listener)
        .map_err(cannot)?
        .handle(handle.clone())
        .http1_only();
    match tls {
        None => {
            tokio::spawn(server.acceptor(connections).serve(service));
        }
        Some(config) => {
            let acceptor = RustlsAcceptor::new(config)
                .handshake_timeout(limits.first_request)
                .acceptor(connections);
            tokio::spawn(server.acceptor(acceptor).serve(service));
        }
    }
    Ok(Port { address, handle })
}

/// Logs a warning where clients on other machines can reach a port without showing who they are.
pub(crate) fn warn_if_exposed(what: &'static str, address: SocketAddr, listen: &Listen) {
    if listen.exposed(address.ip()) {
        tracing::warn!(
            target: "retryguard::controller",
            what,
            %address,
            "listens beyond loopback and requires neither a token nor a client certificate"
        );
    }
}
