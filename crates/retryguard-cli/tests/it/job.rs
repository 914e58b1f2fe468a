//! The manifest that runs a draw as an indexed Job, checked by a real API server.

use std::{fs, path::Path, process::Command};

use retryguard_parts::Kubernetes;
use serde_json::Value;

/// The API server that the tests build knows no indexed Jobs yet, which came with Kubernetes 1.21: it checks everything else, and
/// that the command of a pod is one that `retryguard` takes is checked with an index in its place.
#[test]
#[ignore = "needs Kubernetes"]
fn the_job_is_accepted_and_its_command_is_one_that_runs() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/simulate/job.yaml");
    let cluster = Kubernetes::start();
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let answer = cluster.dry_run(jobs, &manifest);
    let job: Value = serde_json::from_str(&answer).unwrap_or_else(|_| panic!("{answer}"));
    assert_eq!(job["kind"], "Job", "{answer}");
    assert_eq!(job["spec"]["completions"], 16, "{answer}");
    let pod = &job["spec"]["template"]["spec"];
    assert_eq!(pod["restartPolicy"], "Never", "{answer}");
    assert_eq!(
        pod["volumes"][0]["persistentVolumeClaim"]["claimName"],
        "retryguard-results"
    );
    // A mistake is one to the server.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("job");
    fs::create_dir_all(&folder).unwrap();
    let wrong = folder.join("wrong.yaml");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(
        &wrong,
        text.replace("restartPolicy: Never", "restartPolicy: Always"),
    )
    .unwrap();
    assert!(cluster.dry_run(jobs, &wrong).contains("restartPolicy"));
    // The last pod's command, in few worlds and a folder of the test.
    let arguments = pod["containers"][0]["args"].as_array().unwrap();
    let arguments: Vec<String> = arguments
        .iter()
        .map(|argument| {
            let argument = argument.as_str().unwrap();
            argument
                .replace("$(JOB_COMPLETION_INDEX)", "15")
                .replace("--draw=1000", "--draw=16")
                .replace("/results", &folder.join("results").display().to_string())
        })
        .collect();
    let output = Command::new(env!("CARGO_BIN_EXE_retryguard"))
        .args(&arguments)
        .args(["--policy", "none"])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(fs::read_dir(folder.join("results")).unwrap().count(), 1);
}
