//! Two implementations of Amazon's APIs, from PyPI: `moto` and `ministack`.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::shell;

/// The versions that the tests were written against; the cache is keyed by them.
const MOTO: &str = "5.2.5";
const MINISTACK: &str = "1.5.33";
/// Amazon's SDKs speak CBOR to CloudWatch; without this `ministack` reads every such question as an empty one.
const CBOR: &str = "5.6.5";

/// Installs both on first use.
pub(super) fn install() -> anyhow::Result<Vec<(String, OsString)>> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    let folder = std::path::absolute(target.join(format!("aws-{MOTO}-{MINISTACK}-{CBOR}")))?;
    let ready = folder.join("ready");
    if !ready.exists() {
        eprintln!("== AWS: installing moto {MOTO} and ministack {MINISTACK} (once, a minute or two)");
        shell::debian(
            &["python3", "-c", "import venv, ensurepip"],
            &["python3", "python3-venv"],
        )?;
        shell::install("AWS", "python3", &["-m", "venv", &folder.to_string_lossy()])?;
        let python = folder.join("bin/python");
        let moto = format!("moto[server]=={MOTO}");
        let ministack = format!("ministack=={MINISTACK}");
        let cbor = format!("cbor2=={CBOR}");
        shell::install(
            "AWS",
            &python.to_string_lossy(),
            &["-m", "pip", "install", "--quiet", &moto, &ministack, &cbor],
        )?;
        std::fs::write(&ready, "")?;
    }
    let variable = |name: &str, program: &str| {
        let name = format!("RETRYGUARD_PART_{name}");
        (name, folder.join("bin").join(program).into_os_string())
    };
    Ok(vec![
        variable("MOTO_SERVER", "moto_server"),
        variable("MINISTACK", "ministack"),
    ])
}
