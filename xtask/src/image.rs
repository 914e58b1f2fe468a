//! The controller's image, built from its Containerfile and run, where no registry of images can be reached.
//!
//! buildah comes from Debian and needs neither a daemon nor a virtual machine: its steps run in a chroot. The image that the file begins with
//! is made here: Debian by mmdebstrap, and the toolchain by rustup, as the official image is.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, ensure};

use crate::shell;

const FILE: &str = "deploy/kubernetes/Containerfile";
const TAG: &str = "localhost/retryguard:xtask";
/// A configuration for `controller --check`, which reads it and stops.
const CONFIGURATION: &str = "deploy/test/controller.yaml";

/// Builds it with a profile of cargo, and runs it.
///
/// # Errors
/// When a step fails.
pub fn run(profile: &str) -> anyhow::Result<()> {
    shell::debian(
        &["sh", "-c", "buildah --version && mmdebstrap --version"],
        &["buildah", "mmdebstrap"],
    )?;
    let folder = std::path::absolute(shell::target().join("image"))?;
    fs::create_dir_all(&folder)?;
    let base = base()?;
    let builder = Builder::new(&folder)?;
    if builder
        .run("is the first image there", &["inspect", "--type", "image", &base])
        .is_err()
    {
        builder.make_base(&base)?;
    }
    let profile = format!("PROFILE={profile}");
    builder.run(
        "build",
        &[
            "bud",
            "--pull-never",
            "--build-arg",
            &profile,
            "--file",
            FILE,
            "--tag",
            TAG,
            ".",
        ],
    )?;
    let container = builder.container(TAG)?;
    let checked = (|| {
        builder.run("version", &["run", &container, "--", "/retryguard", "--version"])?;
        builder.run(
            "configuration",
            &["copy", "--quiet", &container, CONFIGURATION, "/config.yaml"],
        )?;
        let check = [
            "run",
            &container,
            "--",
            "/retryguard",
            "controller",
            "--config",
            "/config.yaml",
            "--check",
        ];
        builder.run("check", &check)
    })();
    builder.run("remove", &["rm", &container])?;
    checked?;
    eprintln!(
        "== image: {TAG} was built and runs; {} may be removed",
        folder.display()
    );
    Ok(())
}

/// What the file begins with.
fn base() -> anyhow::Result<String> {
    let text = fs::read_to_string(FILE)?;
    let name = text
        .lines()
        .find_map(|line| line.strip_prefix("FROM ")?.strip_suffix(" AS build"))
        .with_context(|| format!("{FILE} does not begin with `FROM … AS build`"))?;
    ensure!(
        name.starts_with("rust:"),
        "{FILE} begins with {name}: this command can make rust:VERSION-SUITE"
    );
    Ok(format!("docker.io/library/{name}"))
}

/// buildah with a storage of its own, below the target folder.
struct Builder {
    variables: [(&'static str, std::ffi::OsString); 2],
    archive: std::path::PathBuf,
}

impl Builder {
    fn new(folder: &Path) -> anyhow::Result<Self> {
        let storage = folder.join("storage.conf");
        let place = |name: &str| folder.join(name).display().to_string();
        fs::write(
            &storage,
            format!(
                "[storage]\ndriver = \"vfs\"\nrunroot = \"{}\"\ngraphroot = \"{}\"\n",
                place("run"),
                place("graph")
            ),
        )?;
        Ok(Self {
            variables: [
                ("CONTAINERS_STORAGE_CONF", storage.into_os_string()),
                ("BUILDAH_ISOLATION", "chroot".into()),
            ],
            archive: folder.join("debian.tar"),
        })
    }

    fn run(&self, title: &str, arguments: &[&str]) -> anyhow::Result<()> {
        let variables: Vec<(&str, &std::ffi::OsStr)> = self
            .variables
            .iter()
            .map(|(name, value)| (*name, value.as_os_str()))
            .collect();
        shell::step_with(&format!("image: {title}"), "buildah", arguments, &variables)
    }

    /// A container of an image; the answer is its name.
    fn container(&self, image: &str) -> anyhow::Result<String> {
        let output = std::process::Command::new("buildah")
            .args(["from", "--pull-never", image])
            .envs(self.variables.iter().map(|(name, value)| (*name, value)))
            .output()?;
        ensure!(
            output.status.success(),
            "`buildah from {image}` failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    fn make_base(&self, name: &str) -> anyhow::Result<()> {
        let (_, tag) = name.rsplit_once(':').context("a tag")?;
        let (version, suite) = tag.split_once('-').context("a tag such as 1.95-bookworm")?;
        let archive = self.archive.display().to_string();
        let packages = "--include=ca-certificates,curl,gcc,libc6-dev";
        shell::step(
            "image: Debian",
            "mmdebstrap",
            &["--variant=minbase", packages, suite, &archive],
        )?;
        let container = self.container("scratch")?;
        self.run("unpack", &["add", "--quiet", &container, &archive, "/"])?;
        // A machine behind a proxy has certificates of its own.
        let certificates = "/etc/ssl/certs/ca-certificates.crt";
        self.run(
            "certificates",
            &["copy", "--quiet", &container, certificates, certificates],
        )?;
        let homes = [
            "--env",
            "RUSTUP_HOME=/usr/local/rustup",
            "--env",
            "CARGO_HOME=/usr/local/cargo",
        ];
        let install = format!(
            "set -e; cd /tmp; curl --fail --silent --show-error --remote-name \
             https://static.rust-lang.org/rustup/dist/x86_64-unknown-linux-gnu/rustup-init; chmod +x rustup-init; ./rustup-init -y \
             --no-modify-path --profile minimal --default-toolchain {version}; rm rustup-init"
        );
        self.run(
            "toolchain",
            &[&["run"], &homes[..], &[&container, "--", "sh", "-c", &install]].concat(),
        )?;
        let path = "PATH=/usr/local/cargo/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        self.run(
            "settings",
            &[&["config"], &homes[..], &["--env", path, &container]].concat(),
        )?;
        self.run("first image", &["commit", "--rm", "--quiet", &container, name])?;
        fs::remove_file(&self.archive)?;
        Ok(())
    }
}
