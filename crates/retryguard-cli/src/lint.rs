//! `retryguard lint FILE…`: judges policies before they are deployed.

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use retryguard_policy::{Diagnostics, LARGEST_FILE, Report, Severity, lint};
use serde_json::{Value, json};

/// Judge policy files: worst-case amplification, missing jitter, retries that do not fit, and more.
///
/// Exits with 0 when no finding is of severity error, with 1 when one is, and with 2 when a file cannot be read
/// as a policy. Every code is explained in docs/lint.md.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The policy files; `-` reads from standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print one JSON object, or an array of them for several files.
    #[arg(long)]
    json: bool,
}

/// What became of one file.
enum Judged {
    Report(Report),
    Mistakes(Diagnostics),
    Unreadable(io::Error),
}

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let judged: Vec<(String, Judged)> = arguments
        .files
        .iter()
        .map(|file| (file.display().to_string(), judge(file)))
        .collect();
    tell_mistakes(&judged);
    let mut out = io::stdout().lock();
    let printed = if arguments.json {
        print_json(&judged, &mut out)
    } else {
        print_lines(&judged, &mut out)
    };
    match printed.and_then(|()| out.flush()) {
        Ok(()) => exit_code(&judged),
        // Whoever read our output has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("retryguard lint: cannot write the report: {error}");
            ExitCode::from(2)
        }
    }
}

fn judge(file: &PathBuf) -> Judged {
    match read(file) {
        Err(error) => Judged::Unreadable(error),
        Ok(text) => match lint(&text) {
            Ok(report) => Judged::Report(report),
            Err(mistakes) => Judged::Mistakes(mistakes),
        },
    }
}

/// Reads no more than a policy may have: a wrong path can name a file of any size.
fn read(file: &PathBuf) -> io::Result<String> {
    use io::Read;
    let bound = LARGEST_FILE as u64 + 1;
    let mut text = String::new();
    if file.as_os_str() == "-" {
        io::stdin().lock().take(bound).read_to_string(&mut text)?;
    } else {
        std::fs::File::open(file)?.take(bound).read_to_string(&mut text)?;
    }
    Ok(text)
}

fn tell_mistakes(judged: &[(String, Judged)]) {
    for (file, judged) in judged {
        match judged {
            Judged::Report(_) => {}
            Judged::Unreadable(error) => {
                eprintln!("{file}: cannot be read: {error}; check the path and that it is text");
            }
            Judged::Mistakes(mistakes) => {
                for mistake in mistakes.as_slice() {
                    let (line, column) = (mistake.at.line, mistake.at.column);
                    eprintln!("{file}:{line}:{column}: {}; {}", mistake.message, mistake.help);
                }
            }
        }
    }
}

fn print_lines(judged: &[(String, Judged)], out: &mut impl Write) -> io::Result<()> {
    for (file, judged) in judged {
        let Judged::Report(report) = judged else {
            continue;
        };
        for finding in &report.findings {
            writeln!(
                out,
                "{file}:{}: {} {}: {}\n    {}",
                finding.line, finding.severity, finding.code, finding.message, finding.cure
            )?;
        }
        writeln!(
            out,
            "{file}: amplification {}, {}, digest {}",
            report.amplification,
            counted(report),
            report.digest
        )?;
    }
    Ok(())
}

/// Such as `1 error, 2 warnings, no notes`.
fn counted(report: &Report) -> String {
    let count = |severity: Severity| {
        let count = report
            .findings
            .iter()
            .filter(|finding| finding.severity == severity)
            .count();
        match count {
            0 => format!("no {severity}s"),
            1 => format!("1 {severity}"),
            _ => format!("{count} {severity}s"),
        }
    };
    [Severity::Error, Severity::Warning, Severity::Note]
        .map(count)
        .join(", ")
}

fn print_json(judged: &[(String, Judged)], out: &mut impl Write) -> io::Result<()> {
    let reports = judged.iter().filter_map(|(file, judged)| match judged {
        Judged::Report(report) => Some((file, as_json(report))),
        Judged::Mistakes(_) | Judged::Unreadable(_) => None,
    });
    if judged.len() == 1 {
        for (_, report) in reports {
            writeln!(out, "{report:#}")?;
        }
        return Ok(());
    }
    let all = reports.map(|(file, mut report)| {
        report["file"] = json!(file);
        report
    });
    writeln!(out, "{:#}", Value::Array(all.collect()))
}

fn as_json(report: &Report) -> Value {
    let findings: Vec<Value> = report
        .findings
        .iter()
        .map(|finding| {
            json!({
                "code": finding.code,
                "severity": finding.severity.as_str(),
                "line": finding.line,
                "message": finding.message,
                "cure": finding.cure,
            })
        })
        .collect();
    json!({"digest": report.digest, "amplification": report.amplification, "findings": findings})
}

fn exit_code(judged: &[(String, Judged)]) -> ExitCode {
    let worst = judged.iter().map(|(_, judged)| match judged {
        Judged::Report(report) => u8::from(report.has_errors()),
        Judged::Mistakes(_) | Judged::Unreadable(_) => 2,
    });
    ExitCode::from(worst.max().unwrap_or(0))
}
