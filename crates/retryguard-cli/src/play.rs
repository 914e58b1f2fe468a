//! `retryguard play`: the playground.

use std::{io::IsTerminal as _, net::SocketAddr};

/// Open the playground: a local page on which policies meet storms, with sliders, an editor and ten known storms.
///
/// Everything is simulated in this process and nothing is loaded from elsewhere. Runs until Ctrl-C.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  retryguard play
  retryguard play --listen 127.0.0.1:8080 --no-open")]
pub(crate) struct Play {
    /// Where the page listens; any free port by default.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Print the address and open no browser; the default where there is no terminal.
    #[arg(long)]
    no_open: bool,
}

impl Play {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        retryguard_lab::block_on(self.serve())
    }

    async fn serve(&self) -> anyhow::Result<()> {
        let interrupted = retryguard_lab::interrupt();
        let server = retryguard_play::serve(self.listen).await?;
        let url = format!("http://{}/", server.address());
        crate::output::print(&format!("playground: {url}\n"))?;
        if !self.no_open && std::io::stdout().is_terminal() {
            retryguard_play::open(&url);
        }
        let interrupted = interrupted.await?;
        drop(server);
        Err(interrupted.into())
    }
}
