//! What the examples share: a server on loopback, and a pause.

use std::time::Duration;

use axum::Router;

/// Serves a router at a port that the operating system chooses, and says where.
///
/// # Errors
/// Where there is no port on loopback.
pub async fn serve(router: Router) -> anyhow::Result<String> {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(format!("http://{address}"))
}

/// Lets some time pass.
#[expect(
    clippy::disallowed_methods,
    reason = "the examples' adapter to tokio's timers"
)]
pub async fn pause(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}
