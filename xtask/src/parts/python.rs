//! Programs that come as Python packages: each in an environment of its own, keyed by its version.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::shell;

/// One environment.
struct Program {
    /// The package, with the version that the tests were written against.
    name: &'static str,
    version: &'static str,
    /// What else is installed into it.
    others: &'static [&'static str],
    /// The program in it that tests run.
    program: &'static str,
    /// How tests call it.
    part: &'static str,
}

const PROGRAMS: [Program; 5] = [
    Program::alone("k6", "1.1.0", "k6"),
    Program::alone("schemathesis", "4.32.5", "schemathesis"),
    Program::alone("distributed", "2026.8.0", "dask"),
    Program::alone("helm-binary", "3.17.3.post1", "helm"),
    // gRPC for Python, with its metrics; tests run scripts with it.
    Program {
        name: "grpcio",
        version: "1.85.0",
        others: &[
            "grpcio-observability==1.85.0",
            "opentelemetry-sdk==1.45.2",
            "opentelemetry-exporter-prometheus==0.66b2",
        ],
        program: "python",
        part: "grpc_python",
    },
];

impl Program {
    const fn alone(name: &'static str, version: &'static str, program: &'static str) -> Self {
        Self {
            name,
            version,
            others: &[],
            program,
            part: program,
        }
    }
}

/// Installs them on first use. The answer is what tests need to find them.
pub(super) fn install() -> anyhow::Result<Vec<(String, OsString)>> {
    PROGRAMS.iter().map(one).collect()
}

fn one(wanted: &Program) -> anyhow::Result<(String, OsString)> {
    let Program {
        name,
        version,
        others,
        program,
        part,
    } = wanted;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    let folder = std::path::absolute(target.join(format!("{name}-{version}")))?;
    let ready = folder.join("ready");
    if !ready.exists() {
        eprintln!("== {name}: installing {version} (once)");
        shell::debian(
            &["python3", "-c", "import venv, ensurepip"],
            &["python3", "python3-venv"],
        )?;
        shell::install(name, "python3", &["-m", "venv", &folder.to_string_lossy()])?;
        let python = folder.join("bin/python");
        let package = format!("{name}=={version}");
        let mut arguments = vec!["-m", "pip", "install", "--quiet", &package];
        arguments.extend(*others);
        shell::install(name, &python.to_string_lossy(), &arguments)?;
        std::fs::write(&ready, "")?;
    }
    let variable = format!("RETRYGUARD_PART_{}", part.to_uppercase());
    Ok((variable, folder.join("bin").join(program).into_os_string()))
}
