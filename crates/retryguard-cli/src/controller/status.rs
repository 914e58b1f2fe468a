//! A running controller's status as a table.

use std::process::ExitCode;

use serde_json::Value;

pub(super) fn run(arguments: &super::Status) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let asked = runtime.map_err(anyhow::Error::from).and_then(|runtime| {
        let status = retryguard_controller::adapters::http::status_client::status(
            &arguments.address,
            arguments.token_file.as_deref(),
            arguments.ca_file.as_deref(),
        );
        Ok(runtime.block_on(status)?)
    });
    let status = match asked {
        Ok(status) => status,
        Err(error) => {
            eprintln!("retryguard controller status: {error}");
            return ExitCode::from(2);
        }
    };
    let text = if arguments.json {
        format!("{status:#}\n")
    } else {
        table(&status)
    };
    match crate::output::print(&text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("retryguard controller status: cannot write: {error}");
            ExitCode::from(2)
        }
    }
}

const HEAD: [&str; 8] = [
    "target",
    "state",
    "share",
    "signal",
    "value",
    "off above",
    "held by",
    "reason",
];

fn table(status: &Value) -> String {
    let mut rows = vec![HEAD.map(str::to_owned)];
    for target in status["targets"].as_array().into_iter().flatten() {
        let text = |key: &str| target[key].as_str().unwrap_or("-").to_owned();
        let number = |key: &str| {
            target[key]
                .as_f64()
                .map_or_else(|| "-".to_owned(), |value| format!("{value:.4}"))
        };
        let held = target["actuators"].as_array().into_iter().flatten().map(|way| {
            let word = |key: &str| way[key].as_str().unwrap_or("-").to_owned();
            format!("{}:{}", word("name"), word("holds"))
        });
        let mut state = text("state");
        if target["holding"] == true {
            state.push_str(" (no data)");
        }
        rows.push([
            text("target"),
            state,
            number("share"),
            text("signal"),
            number("value"),
            number("offAbove"),
            held.collect::<Vec<_>>().join(" "),
            text("reason"),
        ]);
    }
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..HEAD.len()).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let cells = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    let leads = if status["leads"] == true {
        "leads"
    } else {
        "follows"
    };
    text.push_str(&format!("this controller {leads}\n"));
    for would in status["would"].as_array().into_iter().flatten() {
        let word = |key: &str| would[key].as_str().unwrap_or("-").to_owned();
        text.push_str(&format!(
            "dry run: for {} {} would {}\n",
            word("target"),
            word("actuator"),
            word("would")
        ));
    }
    text
}
