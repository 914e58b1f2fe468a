//! A draw on a real Dask cluster: a scheduler and two workers as processes, one of which is killed in the middle.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use retryguard_parts::{Process, free_port, need, until};

const RETRYGUARD: &str = env!("CARGO_BIN_EXE_retryguard");
const DRAW: [&str; 7] = [
    "tournament",
    "--draw",
    "40",
    "--seed",
    "2",
    "--policies",
    "none,immediate",
];
const UNITS: usize = 20;
const LONG: Duration = Duration::from_secs(300);

fn printed(arguments: &[&str]) -> String {
    let output = Command::new(RETRYGUARD)
        .arg("simulate")
        .args(arguments)
        .output()
        .expect("the command starts");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("text")
}

fn start(program: &Path, arguments: &[&str], log: &Path) -> Process {
    let log = fs::File::create(log).expect("a log");
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("a second handle"))
        .stderr(log);
    Process::start(command).expect("the program starts")
}

fn results(folder: &Path) -> usize {
    let names = fs::read_dir(folder).into_iter().flatten().flatten();
    names
        .filter(|entry| entry.path().extension().is_some_and(|it| it == "json"))
        .count()
}

#[test]
#[ignore = "needs Dask"]
fn a_draw_survives_the_loss_of_a_worker_and_has_the_bytes_of_one_machine() {
    let dask = need("dask");
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("dask");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    let address = format!("tcp://127.0.0.1:{}", free_port());
    let port = address.rsplit(':').next().expect("a port");
    let log = |name: &str| folder.join(format!("{name}.log"));
    let _scheduler = start(
        &dask,
        &[
            "scheduler",
            "--host",
            "127.0.0.1",
            "--port",
            port,
            "--no-dashboard",
        ],
        &log("scheduler"),
    );
    let worker = |name: &str| {
        let arguments = [
            "worker",
            &address,
            "--host",
            "127.0.0.1",
            "--no-nanny",
            "--nthreads",
            "1",
            "--no-dashboard",
            "--local-directory",
            &folder.to_string_lossy(),
        ];
        start(&dask, &arguments, &log(name))
    };
    let (mut doomed, _other) = (worker("doomed"), worker("other"));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/simulate/draw_on_dask.py");
    let out = folder.join("results");
    let units = UNITS.to_string();
    let mut arguments = vec![
        script.to_str().expect("a path"),
        "--scheduler",
        &address,
        "--units",
        &units,
        "--retryguard",
        RETRYGUARD,
        "--out",
        out.to_str().expect("a path"),
        "--",
    ];
    arguments.extend(DRAW);
    let mut driver = start(&dask.with_file_name("python"), &arguments, &log("driver"));
    assert!(
        until(LONG, || results(&out) > 0 || !driver.runs()),
        "no unit was run"
    );
    doomed.kill();
    assert!(until(LONG, || !driver.runs()), "the driver does not end");
    let told = fs::read_to_string(log("driver")).expect("a log");
    assert_eq!(results(&out), UNITS, "{told}");
    let merged = printed(&["merge", out.to_str().expect("a path"), "--json"]);
    assert_eq!(merged, printed(&[&DRAW[..], &["--json"]].concat()));
}
