//! `retryguard completions` and `retryguard man`: for shells and for `man`.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Command;
use clap_complete::Shell;

/// Print the completions of a shell.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  retryguard completions bash > ~/.local/share/bash-completion/completions/retryguard
  retryguard completions zsh > ~/.zfunc/_retryguard
  retryguard completions fish > ~/.config/fish/completions/retryguard.fish")]
pub(crate) struct Completions {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// Write the man pages into a folder: one for the command and one for each subcommand.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  retryguard man ~/.local/share/man/man1 && man retryguard-lint")]
pub(crate) struct Man {
    /// The folder; made where it is missing.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

impl Completions {
    pub(crate) fn run(&self, mut command: Command) -> anyhow::Result<()> {
        let mut out = Vec::new();
        clap_complete::generate(self.shell, &mut command, "retryguard", &mut out);
        crate::output::print(&String::from_utf8_lossy(&out))
    }
}

impl Man {
    pub(crate) fn run(&self, command: Command) -> anyhow::Result<()> {
        let mut files = vec![("retryguard.1".to_owned(), page(&command)?)];
        for sub in command.get_subcommands() {
            let name = format!("retryguard-{}", sub.get_name());
            // The page's own name is that of the command as it is typed.
            let named = sub
                .clone()
                .display_name(name.clone())
                .bin_name(format!("retryguard {}", sub.get_name()));
            files.push((format!("{name}.1"), page(&named)?));
        }
        crate::output::write(&self.folder, &files)
    }
}

fn page(command: &Command) -> anyhow::Result<String> {
    let mut out = Vec::new();
    clap_mangen::Man::new(command.clone())
        .render(&mut out)
        .context("a page cannot be written")?;
    Ok(String::from_utf8_lossy(&out).into_owned())
}
