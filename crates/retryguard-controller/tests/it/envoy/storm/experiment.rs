//! The storm with the guard's defaults, every way there is to watch and to switch, written down as a page.
//!
//! `cargo xtask evidence envoy` runs it; it is not a test, and takes nine minutes.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

use retryguard_report::chart;

use super::arm::{Actuator, Arm, Source};
use super::service::PLACES;
use super::timeline::{Timeline, Totals};
use super::{CALM, CAPACITY, OVERLOAD, phases};

const SEED: u64 = 1;
const BEFORE: usize = 5;
const DURING: usize = 30;
const AFTER: usize = 25;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Envoy and Prometheus"]
async fn write_the_experiment() {
    let Some(out) = std::env::var_os("RETRYGUARD_EXPERIMENT_OUT").map(PathBuf::from) else {
        eprintln!(
            "no experiment: nine minutes of load; `cargo xtask evidence envoy` runs it and writes the page"
        );
        return;
    };
    let arms = [
        Arm::WITHOUT_CONTROLLER,
        Arm::NONE,
        Arm::new(Actuator::Rtds, Source::Scrape).with_defaults(),
        Arm::new(Actuator::Admin, Source::Scrape).with_defaults(),
        Arm::new(Actuator::Rtds, Source::Prometheus).with_defaults(),
    ];
    let lines = each(&arms).await;
    let bare = each(&[arms[0], arms[1], arms[2]].map(Arm::without_a_queue)).await;
    std::fs::create_dir_all(&out).unwrap();
    std::fs::write(out.join("README.md"), page(&lines, &bare)).unwrap();
    std::fs::write(out.join("attempts.svg"), picture(&lines)).unwrap();
    let mut table = String::from("arm,second,calls,attempts,served,succeeded,failed,guard\n");
    for (arm, line) in &lines {
        for row in line.to_string().lines().skip(1) {
            let _ = writeln!(table, "\"{arm}\",{row}");
        }
    }
    std::fs::write(out.join("timeline.csv"), table).unwrap();
}

async fn each(arms: &[Arm]) -> Vec<(Arm, Timeline)> {
    let mut lines = Vec::new();
    for arm in arms {
        eprintln!("{arm}");
        let all = phases(BEFORE as u64, DURING as u64, AFTER as u64);
        let line = arm.run(&all, SEED).await;
        lines.push((*arm, line));
    }
    lines
}

/// From the step of the load to its end.
fn overload(line: &Timeline) -> Totals {
    line.during(BEFORE, BEFORE + DURING)
}

/// How many workers an autoscaler that counts arriving requests would ask for during the overload, on average: each
/// second as many as serve that second's attempts. Nothing scales here, so the request is not met: with more workers
/// fewer attempts would fail, and fewer would come.
fn workers(line: &Timeline) -> f64 {
    let one = CAPACITY / PLACES as f64;
    let asked = |second: usize| (line.during(second, second + 1).attempts as f64 / one).ceil();
    (BEFORE..BEFORE + DURING).map(asked).sum::<f64>() / DURING as f64
}

fn page(lines: &[(Arm, Timeline)], bare: &[(Arm, Timeline)]) -> String {
    let policy = retryguard_policy::Policy::default();
    let digest = policy.digest();
    let mut text = format!(
        "# A storm on a real Envoy\n\n\
         Written by `cargo xtask evidence envoy`; do not edit. Seed {SEED}, {}, {}, policy digest {digest}.\n\n\
         Clients call at {CALM} a second for {BEFORE} s, at {OVERLOAD} for {DURING} s and at {CALM} for {AFTER} s, \
         independent of each other (exponential gaps). Envoy's route has five retries on 5xx with Envoy's own \
         back-off. The service serves {CAPACITY} calls a second, eight at a time, with a queue of sixteen, and turns \
         away at once what does not fit. Attempts are counted by the service, calls and their time by the clients, for the calls made during the overload whenever they ended. The guard has its \
         defaults; Prometheus scrapes every second. All of it, the clients and the service included, ran on one \
         machine with two cores that had other work to do: ratios mean something, times do not.\n\n\
         ## During the overload\n\n",
        version("envoy"),
        version("prometheus"),
    );
    table(&mut text, lines);
    text.push_str("\n![attempts at the service](attempts.svg)\n\n");
    text.push_str("## The paper's claims\n\n");
    claims(&mut text, lines);
    text.push_str(
        "\n## The same before a service without a queue\n\n\
         The paper's model has a queue (M/M/1/m). Without one, a place that falls free stays free until the next call \
         comes; retries fill such gaps as a queue would, and the service gets *less* done without them. What the guard \
         costs there is what having no retries costs:\n\n",
    );
    table(&mut text, bare);
    text.push_str(
        "\n## What this cannot show\n\n\
         - Nothing here scales. \"Workers asked for\" is what an autoscaler that counts arriving requests would want, second \
         by second, for the attempts that were measured; with more workers fewer attempts would fail, so a service that \
         gets them needs fewer. Replicas and DynamoDB capacity with that feedback are in docs/evidence/table1-istio and \
         docs/evidence/table1-aws, simulated. \"Billing\" is what a function that waits for its call would pay, as in the \
         paper's Lambda: the time of all calls.\n\
         - The service turns away at once. One that answers slowly instead shows its overload through Envoy's \
         per-try timeout only.\n\
         - One run of each arm. The times of the calls are the same in all of them, the machine's mood is not.\n",
    );
    text
}

fn table(text: &mut String, lines: &[(Arm, Timeline)]) {
    let reference = lines[2].1.fates[1].held();
    text.push_str(
        "| | retries per call | calls rejected | served a second | workers asked for | mean time of a call | time of all calls | off after |\n\
         | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for (arm, line) in lines {
        let (totals, fate) = (overload(line), line.fates[1]);
        let off = line.first("suspended").map_or_else(
            || "–".to_owned(),
            |second| format!("{} s", second.saturating_sub(BEFORE)),
        );
        let _ = writeln!(
            text,
            "| {arm} | {} | {:.1} % | {:.1} | {:.1} | {:.0} ms | {:.0} % | {off} |",
            retries(totals),
            100.0 * fate.rejection(),
            totals.goodput(),
            workers(line),
            1e3 * fate.mean(),
            100.0 * fate.held() / reference,
        );
    }
}

/// As the page writes it. An attempt and the call that it belongs to can fall into two seconds, so a sum over some seconds
/// may have a few attempts less than calls: a hair below zero, which reads as a mistake once it is rounded.
fn retries(totals: Totals) -> String {
    let text = format!("{:.2}", totals.retries_per_call());
    if text == "-0.00" { "0.00".to_owned() } else { text }
}

/// The paper's claims that this experiment can speak to.
fn claims(text: &mut String, lines: &[(Arm, Timeline)]) {
    let (without, with) = (overload(&lines[0].1), overload(&lines[2].1));
    let (fate_without, fate_with) = (lines[0].1.fates[1], lines[2].1.fates[1]);
    let cut = 1.0 - with.retries_per_call() / without.retries_per_call();
    let held = |claim: bool| if claim { "held" } else { "not held" };
    let later = lines[2].1.during(BEFORE + 10, BEFORE + DURING);
    let k = 6.0_f64;
    let p = (1.0 - CAPACITY / OVERLOAD).powf(1.0 / k);
    let form = (1.0 - p.powf(k)) / (1.0 - p) - 1.0;
    let mut row = |claim: &str, paper: &str, ours: String, verdict: &str| {
        let _ = writeln!(text, "| {claim} | {paper} | {ours} | {verdict} |");
    };
    row("claim, at 150 % load", "paper", "here".to_owned(), "");
    row("---", "---", "---".to_owned(), "---");
    row(
        "retries per request, default policy",
        "2.09 (AWS), 0.31 (Istio)",
        format!("{}; Eq. 5 for six attempts gives {form:.2}", retries(without)),
        "another client: five retries, milliseconds apart",
    );
    row(
        "retries per request, RetryGuard",
        "0.05 (AWS), 0.01 (Istio)",
        format!(
            "{} over the whole overload, {} from its tenth second on",
            retries(with),
            retries(later)
        ),
        "the first seconds, before the guard is sure, are a larger part of 30 s than of the paper's minutes",
    );
    row(
        "the storm shrinks by 98 %",
        "98 %",
        format!("{:.1} %", 100.0 * cut),
        held(cut >= 0.975),
    );
    row(
        "the rejection rate is no higher",
        "19.8 → 18.8 %",
        format!(
            "{:.1} → {:.1} %",
            100.0 * fate_without.rejection(),
            100.0 * fate_with.rejection()
        ),
        held(fate_with.rejection() <= 1.02 * fate_without.rejection()),
    );
    row(
        "no less gets done",
        "Fig. 9c: similar",
        format!("{:.1} → {:.1} a second", without.goodput(), with.goodput()),
        held(with.goodput() >= 0.98 * without.goodput()),
    );
    row(
        "billing (time of all calls)",
        "1029 → 100 % (AWS)",
        format!("{:.0} → 100 %", 100.0 * fate_without.held() / fate_with.held()),
        held(fate_without.held() > fate_with.held()),
    );
    let asked = [&lines[0].1, &lines[2].1].map(workers);
    row(
        "replicas that an autoscaler asks for",
        "250 → about a third (Istio)",
        format!(
            "{:.1} → {:.1} workers of {:.1} calls a second, {:.0} % of the first; the service has {PLACES}",
            asked[0],
            asked[1],
            CAPACITY / PLACES as f64,
            100.0 * asked[1] / asked[0]
        ),
        held(asked[1] <= 0.4 * asked[0]),
    );
    row(
        "retries come back gradually",
        "Sec. 6.2",
        format!(
            "ramp seen: {}; at the end: {}",
            lines[2].1.saw("limited"),
            lines[2].1.last_state()
        ),
        held(lines[2].1.saw("limited") && lines[2].1.last_state() == "allowed"),
    );
}

fn picture(lines: &[(Arm, Timeline)]) -> String {
    let seconds = (BEFORE + DURING + AFTER) as f64;
    let series = |line: &Timeline| {
        let point = |second: usize| (second as f64, line.during(second - 1, second).attempts as f64);
        vec![(1..=line.seconds.len()).map(point).collect()]
    };
    chart::Figure {
        title: "Attempts arriving at the service, a second",
        panels: vec![chart::Panel {
            label: "attempts a second",
            x_label: "seconds",
            x_range: (0.0, seconds),
            x_ticks: (0..=9)
                .map(|tick| (f64::from(tick) * 10.0, format!("{}", tick * 10)))
                .collect(),
            lines: lines.iter().map(|(_, line)| series(line)).collect(),
        }],
        names: lines.iter().map(|(arm, _)| arm.short().to_owned()).collect(),
    }
    .svg()
}

pub(super) fn version(program: &str) -> String {
    let path = retryguard_parts::find(program).expect("it has just run");
    let output = Command::new(path).arg("--version").output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let number = said
        .split(['/', ' ', ',', '\n'])
        .find(|word| word.split('.').count() == 3 && word.starts_with(|first: char| first.is_ascii_digit()));
    format!("{program} {}", number.unwrap_or("of unknown version"))
}

/// A share that is rounded to nothing has no sign.
#[test]
fn no_retries_are_written_without_a_sign() {
    let written = |attempts, calls| {
        retries(Totals {
            attempts,
            calls,
            ..Totals::default()
        })
    };
    assert_eq!(written(4499, 4500), "0.00");
    assert_eq!(written(4500, 4500), "0.00");
    assert_eq!(written(4860, 4500), "0.08");
    // What is more than a hair below zero is a mistake of ours, and shows.
    assert_eq!(written(4400, 4500), "-0.02");
}
