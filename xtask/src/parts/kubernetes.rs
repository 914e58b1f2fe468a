//! The Kubernetes API server, built from Debian's source package: its binary is not offered as a package.
//!
//! The build takes minutes, so it runs beside the checks that come before the tests. It is done once for a user: the
//! binary is kept in the user's cache folder, keyed by its version, so that another clone finds it.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, bail, ensure};

use crate::shell;

/// The version that Debian's present release has; the cache is keyed by it.
const VERSION: &str = "1.20.2";

/// A build that may still be under way. One that is left alone goes on, and the next run waits for it.
pub(super) struct Building {
    folder: PathBuf,
    running: Option<(Child, Instant)>,
    /// Held until the binary is in its place: another clone that wants to build waits, and then finds it.
    _lock: fs::File,
}

/// Installs what the build needs and starts it, unless it was done before.
pub(super) fn begin() -> anyhow::Result<Building> {
    shell::debian(
        &["sh", "-c", "etcd --version && openssl version && curl --version"],
        &["etcd-server", "openssl", "curl"],
    )?;
    let folder = std::path::absolute(shell::cache().join(format!("kubernetes-{VERSION}")))?;
    fs::create_dir_all(shell::cache())?;
    let lock = fs::File::create(shell::cache().join(format!("kubernetes-{VERSION}.lock")))?;
    if !binary(&folder).exists() && lock.try_lock().is_err() {
        eprintln!("== Kubernetes: another run builds the API server; waiting for it");
        lock.lock()?;
    }
    let running = if binary(&folder).exists() {
        None
    } else {
        eprintln!(
            "== Kubernetes: building the API server {VERSION} from Debian's source (once, about 8 minutes on 2 cores, 3 GB \
             while it lasts); it goes on beside the next steps, see {}",
            folder.join("build.log").display()
        );
        unpack(&folder)?;
        #[expect(
            clippy::disallowed_methods,
            reason = "says how long the build took; nothing is decided by it"
        )]
        let begun = Instant::now();
        Some((make(&folder)?, begun))
    };
    Ok(Building {
        folder,
        running,
        _lock: lock,
    })
}

impl Building {
    /// Waits for the build. The answer is what tests need to find the server.
    pub(super) fn finish(self) -> anyhow::Result<(String, OsString)> {
        let binary = binary(&self.folder);
        if let Some((mut make, begun)) = self.running {
            eprintln!("== Kubernetes: waiting for the build");
            let status = make.wait()?;
            ensure!(
                status.success(),
                "the build failed ({status}), see {}",
                self.folder.join("build.log").display()
            );
            let source = self.folder.join("source");
            // Under another name first: what has the right name is whole.
            let part = self.folder.join("kube-apiserver.part");
            fs::copy(source.join("_output/local/bin/linux/amd64/kube-apiserver"), &part)?;
            fs::rename(&part, &binary)?;
            fs::remove_dir_all(&source)?;
            eprintln!("== Kubernetes: built in {} s", begun.elapsed().as_secs());
        }
        Ok((
            "RETRYGUARD_PART_KUBE_APISERVER".to_owned(),
            binary.into_os_string(),
        ))
    }
}

fn binary(folder: &Path) -> PathBuf {
    folder.join("kube-apiserver")
}

/// Brings the source to `folder/source`. What an interrupted run has left is taken up only when it was whole.
fn unpack(folder: &Path) -> anyhow::Result<()> {
    let whole = folder.join("source/.unpacked");
    if whole.exists() {
        return Ok(());
    }
    shell::debian(
        &[
            "sh",
            "-c",
            "go version && rsync --version && dpkg-source --version && make --version",
        ],
        &["golang-go", "rsync", "dpkg-dev", "make"],
    )?;
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    for made in [
        "apt/parts",
        "apt/lists/partial",
        "apt/cache/archives/partial",
        "packages",
    ] {
        fs::create_dir_all(folder.join(made))?;
    }
    write_sources(&folder.join("apt/parts"))?;
    let fetch = |arguments: &[&str]| apt(folder, arguments);
    fetch(&["--quiet", "update"])?;
    fetch(&["--quiet", "source", "--download-only", "kubernetes"])?;
    fetch(&["--quiet", "download", "golang-github-modern-go-reflect2-dev"])?;
    let packages = folder.join("packages");
    let description = named(&packages, "kubernetes_", ".dsc")?;
    ensure!(
        description.contains(VERSION),
        "Debian's source package is now {description}, and this build was written for {VERSION}: try the new one and \
         change `VERSION`"
    );
    run(
        &packages,
        &["dpkg-source", "--extract", &description, "../source"],
    )?;
    let reflect = named(&packages, "golang-github-modern-go-reflect2-dev_", ".deb")?;
    run(&packages, &["dpkg", "--extract", &reflect, "reflect2"])?;
    replace_reflect(folder)?;
    fs::write(whole, "")?;
    Ok(())
}

/// The system's own sources with source packages added, in a folder of ours: the system's stay as they are.
fn write_sources(parts: &Path) -> anyhow::Result<()> {
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    if let Ok(entries) = fs::read_dir("/etc/apt/sources.list.d") {
        files.extend(entries.filter_map(|entry| Some(entry.ok()?.path())));
    }
    for file in files {
        let Ok(text) = fs::read_to_string(&file) else {
            continue;
        };
        let both = match file.extension().and_then(|extension| extension.to_str()) {
            Some("sources") => text.replace("Types: deb\n", "Types: deb deb-src\n"),
            Some("list") => text
                .lines()
                .filter(|line| line.starts_with("deb "))
                .flat_map(|line| [line.to_owned(), line.replacen("deb ", "deb-src ", 1)])
                .map(|line| line + "\n")
                .collect(),
            _ => continue,
        };
        let name = file.file_name().context("a file has a name")?;
        fs::write(parts.join(name), both)?;
    }
    Ok(())
}

fn apt(folder: &Path, arguments: &[&str]) -> anyhow::Result<()> {
    let option = |key: &str, value: &str| format!("{key}={}", folder.join(value).display());
    let options = [
        "Dir::Etc::sourcelist=/dev/null".to_owned(),
        option("Dir::Etc::sourceparts", "apt/parts"),
        option("Dir::State::lists", "apt/lists"),
        option("Dir::Cache", "apt/cache"),
        // Else apt says at length that its own user cannot enter a folder of root.
        "APT::Sandbox::User=root".to_owned(),
    ];
    let mut words = vec!["apt-get"];
    for option in &options {
        words.extend(["--option", option]);
    }
    words.extend(arguments);
    run(&folder.join("packages"), &words)
}

/// The vendored reflect2 crashes under Debian's Go at the first custom resource: Debian's own takes its place.
fn replace_reflect(folder: &Path) -> anyhow::Result<()> {
    let vendored = folder.join("source/vendor/github.com/modern-go/reflect2");
    let newer = folder.join("packages/reflect2/usr/share/gocode/src/github.com/modern-go/reflect2");
    let is_go = |path: &Path| path.extension().is_some_and(|extension| extension == "go");
    for entry in fs::read_dir(&vendored)? {
        let path = entry?.path();
        if is_go(&path) {
            fs::remove_file(path)?;
        }
    }
    for entry in fs::read_dir(newer)? {
        let path = entry?.path();
        let name = entry_name(&path);
        if is_go(&path) && !name.ends_with("_test.go") {
            fs::copy(&path, vendored.join(name))?;
        }
    }
    Ok(())
}

/// At low priority beside other work, and never twice in one folder: the lock outlives a run that was interrupted.
fn make(folder: &Path) -> anyhow::Result<Child> {
    let source = folder.join("source");
    let path = source.join(".go");
    fs::create_dir_all(path.join("src/k8s.io"))?;
    fs::create_dir_all(source.join(".home"))?;
    let link = path.join("src/k8s.io/kubernetes");
    if !link.exists() {
        std::os::unix::fs::symlink("../../..", &link)?;
    }
    let log = fs::File::create(folder.join("build.log"))?;
    Command::new("flock")
        .arg(folder.join("lock"))
        .args(["nice", "-n", "10", "make", "WHAT=cmd/kube-apiserver"])
        .current_dir(&source)
        .env("GOPATH", &path)
        .env("HOME", source.join(".home"))
        .envs([("CGO_ENABLED", "0"), ("GOPROXY", "off"), ("GOFLAGS", "")])
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .context("cannot start the build: are `flock`, `nice` and `make` on the PATH?")
}

fn named(folder: &Path, begin: &str, end: &str) -> anyhow::Result<String> {
    fs::read_dir(folder)?
        .filter_map(|entry| Some(entry_name(&entry.ok()?.path())))
        .find(|name| name.starts_with(begin) && name.ends_with(end))
        .with_context(|| format!("no {begin}*{end} in {}", folder.display()))
}

fn entry_name(path: &Path) -> String {
    path.file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// Runs one program quietly in `folder`; its output is shown only when it fails.
fn run(folder: &Path, words: &[&str]) -> anyhow::Result<()> {
    let [program, arguments @ ..] = words else {
        return Ok(());
    };
    eprintln!("== Kubernetes: {}", words.join(" "));
    let output = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .output()
        .with_context(|| format!("cannot start `{program}`"))?;
    if !output.status.success() {
        bail!(
            "`{}` failed: {}",
            words.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(())
}
