//! One run through random failures, an overload and an outage: retries stay on where they help, and go off where they do not.
//!
//! `cargo xtask evidence envoy-phases` writes the page; the test beside it uses other rates.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use retryguard_report::chart;

use super::super::world::until;
use super::arm::{Actuator, Arm, Source, World};
use super::experiment::version;
use super::load::{Dial, Phase};
use super::service::{Fault, PLACES};
use super::timeline::Timeline;
use super::{ALONE, SMALL, window};

const SEED: u64 = 7;

struct Stretch {
    name: &'static str,
    rate: f64,
    seconds: u32,
    fault: Fault,
}

/// The phases of the page. The constants of the measurement were chosen with the rates of the test below; that an outage ends a
/// test of retries was added after a run of these phases.
const PHASES: [Stretch; 5] = [
    Stretch {
        name: "calm",
        rate: 25.0,
        seconds: 10,
        fault: Fault::None,
    },
    Stretch {
        name: "25 % random 503",
        rate: 25.0,
        seconds: 40,
        fault: Fault::Random(0.25),
    },
    Stretch {
        name: "overload",
        rate: 75.0,
        seconds: 40,
        fault: Fault::None,
    },
    Stretch {
        name: "outage",
        rate: 25.0,
        seconds: 20,
        fault: Fault::Down,
    },
    Stretch {
        name: "calm again",
        rate: 25.0,
        seconds: 15,
        fault: Fault::None,
    },
];

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Envoy"]
async fn write_the_four_phases() {
    let Some(out) = std::env::var_os("RETRYGUARD_PHASES_OUT").map(PathBuf::from) else {
        eprintln!(
            "no experiment: six minutes of load; `cargo xtask evidence envoy-phases` runs it and writes the page"
        );
        return;
    };
    let arms = [
        Arm::WITHOUT_CONTROLLER,
        Arm::BUDGET,
        Arm::new(Actuator::Rtds, Source::Scrape).with_defaults(),
    ]
    .map(|arm| arm.before(SMALL));
    let phases = PHASES.map(|stretch| Phase {
        rate: stretch.rate,
        lasts: Duration::from_secs(stretch.seconds.into()),
        fault: stretch.fault,
    });
    let mut lines = Vec::new();
    for arm in arms {
        eprintln!("{arm}");
        let line = arm.run(&phases, SEED).await;
        lines.push((arm, line));
    }
    std::fs::create_dir_all(&out).unwrap();
    std::fs::write(out.join("README.md"), page(&lines)).unwrap();
    std::fs::write(out.join("attempts.svg"), picture(&lines)).unwrap();
    let mut table = String::from("arm,second,calls,attempts,served,succeeded,failed,guard\n");
    for (arm, line) in &lines {
        for row in line.to_string().lines().skip(1) {
            let _ = writeln!(table, "\"{arm}\",{row}");
        }
    }
    std::fs::write(out.join("timeline.csv"), table).unwrap();
}

/// The seconds at which a phase begins and ends.
fn bounds(phase: usize) -> (u32, u32) {
    let from = PHASES[..phase].iter().map(|stretch| stretch.seconds).sum();
    (from, from + PHASES[phase].seconds)
}

fn page(lines: &[(Arm, Timeline)]) -> String {
    let mut text = format!(
        "# Four phases on a real Envoy\n\n\
         Written by `cargo xtask evidence envoy-phases`; do not edit. Seed {SEED}, {}.\n\n\
         One run for each arm. Envoy's route has five retries on 5xx with Envoy's own back-off. The service serves {SMALL} \
         calls a second, {PLACES} at a time, with a queue of sixteen, and rejects at once what does not fit. In the random \
         phase it also answers a quarter of all requests with 503; in the outage it answers every request with 503. \
         Envoy's retry budget has its defaults: 20 % of the requests in flight, and three at the least. The \
         controller has its defaults: it scrapes Envoy every second and switches through runtime discovery. Calls are \
         counted by the clients for the phase in which they were made, attempts by the service. Clients, service, Envoy \
         and controller ran on one machine with two cores that had other work to do.\n",
        version("envoy"),
    );
    let column = |text: &mut String, title: &str, value: &dyn Fn(&Timeline, usize) -> String| {
        let _ = write!(text, "\n## {title}\n\n| phase | calls a second |");
        for (arm, _) in lines {
            let _ = write!(text, " {arm} |");
        }
        let _ = writeln!(text, "\n| --- | ---: |{}", " ---: |".repeat(lines.len()));
        for (number, stretch) in PHASES.iter().enumerate() {
            let _ = write!(
                text,
                "| {}, {} s | {} |",
                stretch.name, stretch.seconds, stretch.rate
            );
            for (_, line) in lines {
                let _ = write!(text, " {} |", value(line, number));
            }
            text.push('\n');
        }
    };
    column(&mut text, "Calls that succeeded", &|line, phase| {
        format!("{:.1} %", 100.0 * line.fates[phase].success())
    });
    column(&mut text, "Attempts per call", &|line, phase| {
        let (from, to) = bounds(phase);
        format!(
            "{:.2}",
            line.during(from as usize, to as usize).attempts_per_call()
        )
    });
    text.push_str(
        "\nAt an overload by half, no policy can serve more than two thirds of the calls. What retries cost there is the \
         attempts.\n\n![attempts at the service](attempts.svg)\n",
    );
    verdicts(&mut text, &lines[2].1);
    text.push_str("\n## What the controller decided\n\n| second | retries |\n| ---: | --- |\n");
    for (at, state) in &lines[2].1.changes {
        let _ = writeln!(text, "| {at:.1} | {state} |");
    }
    text.push_str(
        "\n## What this cannot show\n\n\
         - One run of each arm, on one machine. The times of the calls are the same in all arms; the machine's other work is not.\n\
         - The rule was changed after runs of these phases. In one, an outage did not end a test of retries. In two, retries were off \
         for 90.5 % and 89.5 % of the outage, because a test that fell on its beginning went on for two seconds; since then it ends \
         with the first sample in which retries come to nothing. In the next they were off for 95.0 %, because a test cannot end \
         before its first sample; since then no test is made while the samples show that the service is at its capacity. A \
         run with twice the rates was given up, for the machine was too busy.\n\
         - A service that is not seen at its capacity is tested after 30 s, and a test may fall on the first second of an outage.\n\
         - The service rejects at once. An overload that answers slowly is seen through Envoy's per-try timeout only.\n\
         - In the outage every answer is a 503. A service whose connections are refused looks the same to the controller, \
         because Envoy counts a 503 for each.\n",
    );
    text
}

fn verdicts(text: &mut String, line: &Timeline) {
    let at = |phase: usize| {
        let (from, to) = bounds(phase);
        (f64::from(from), f64::from(to))
    };
    let held = |yes: bool| if yes { "yes" } else { "**no**" };
    text.push_str(
        "\n## What was wanted of the controller\n\n| wanted | measured | held |\n| --- | --- | --- |\n",
    );
    for phase in [0, 1] {
        let (from, to) = at(phase);
        let on = line.share("allowed", from, to);
        let _ = writeln!(
            text,
            "| retries stay on: {} | allowed for {:.1} % of the time | {} |",
            PHASES[phase].name,
            100.0 * on,
            held(on >= 0.99)
        );
    }
    let (from, to) = at(2);
    let off = line.reached("suspended", from, to).map(|at| at - from);
    let _ = writeln!(
        text,
        "| overload: off within five samples of one second | off after {} | {} |",
        off.map_or_else(|| "–".to_owned(), |off| format!("{off:.1} s")),
        // The sample in which the load rises is not yet one of the overload.
        held(off.is_some_and(|off| off <= 6.0))
    );
    let rest = from + off.unwrap_or(0.0);
    let _ = writeln!(
        text,
        "| overload: off for the rest of it | suspended for {:.1} % of the rest; tests take the remainder | {} |",
        100.0 * line.share("suspended", rest, to),
        held(line.share("suspended", rest, to) >= 0.85)
    );
    let (from, to) = at(3);
    let off = line.share("suspended", from, to);
    let _ = writeln!(
        text,
        "| outage: off | suspended for {:.1} % of the time | {} |",
        100.0 * off,
        held(off >= 0.99)
    );
    let (from, to) = at(4);
    let back = line.reached("allowed", from, to).map(|at| at - from);
    let _ = writeln!(
        text,
        "| back within two seconds of the recovery | allowed after {} | {} |",
        back.map_or_else(|| "–".to_owned(), |back| format!("{back:.1} s")),
        held(back.is_some_and(|back| back <= 2.1))
    );
}

fn picture(lines: &[(Arm, Timeline)]) -> String {
    let (_, end) = bounds(PHASES.len() - 1);
    let series = |line: &Timeline| {
        let point = |second: usize| (second as f64, line.during(second - 1, second).attempts as f64);
        vec![(1..=line.seconds.len()).map(point).collect()]
    };
    let mut ticks = Vec::new();
    for (phase, stretch) in PHASES.iter().enumerate() {
        ticks.push((f64::from(bounds(phase).0), stretch.name.to_owned()));
    }
    chart::Figure {
        title: "Attempts arriving at the service, a second",
        panels: vec![chart::Panel {
            label: "attempts a second",
            x_label: "the beginning of each phase",
            x_range: (0.0, f64::from(end)),
            x_ticks: ticks,
            lines: lines.iter().map(|(_, line)| series(line)).collect(),
        }],
        names: lines.iter().map(|(arm, _)| arm.short().to_owned()).collect(),
    }
    .svg()
}

/// What the target's guard says in the status.
async fn target(world: &World) -> serde_json::Value {
    let controller = world.controller.as_ref().expect("this arm has one");
    controller.status().await["targets"][0].clone()
}

/// The threshold alone switched retries off at 25 % random failures and lowered the success from 100 % to 77 %. Here the
/// same controller goes through random failures, an overload and an outage.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Envoy"]
async fn retries_stay_on_under_random_failures_and_go_off_under_overload() {
    let _alone = ALONE.lock().await;
    let arm = Arm::new(Actuator::Rtds, Source::Scrape).before(SMALL);
    let world = arm.start().await;
    let load = Dial::start(world.envoy.url(), 30.0);
    until("data", || async { target(&world).await["calls"].is_number() }).await;
    world.service.fault.set(Fault::Random(0.3));
    until("rejections are seen", || async {
        target(&world).await["value"]
            .as_f64()
            .is_some_and(|share| share > 0.2)
    })
    .await;
    // For longer than the threshold guard and a measurement take. A machine that stands still may look like an overload for a
    // moment, so what is demanded is that the calls of some window succeed by their retries while so many are rejected.
    for _ in 0..3 {
        window(&world, &load).await;
    }
    until("calls succeed by their retries", || async {
        let (counts, seconds) = window(&world, &load).await;
        let state = target(&world).await["state"].clone();
        println!("random failures: {state} {counts:?} in {seconds:.1} s");
        state == "allowed"
            && counts.attempts_per_call() > 1.2
            && counts.succeeded as f64 >= 0.97 * counts.calls as f64
    })
    .await;
    world.service.fault.set(Fault::None);
    load.set(1.7 * SMALL);
    until("suspended by the overload", || async {
        target(&world).await["state"] == "suspended"
    })
    .await;
    window(&world, &load).await;
    until("few attempts are wasted", || async {
        let (counts, seconds) = window(&world, &load).await;
        println!("overload: {counts:?} in {seconds:.1} s");
        counts.attempts_per_call() < 1.3
    })
    .await;
    load.set(30.0);
    world.service.fault.set(Fault::Down);
    until("an outage is held off", || async {
        let target = target(&world).await;
        target["state"] == "suspended" && target["value"].as_f64().is_some_and(|share| share > 0.9)
    })
    .await;
    world.service.fault.set(Fault::None);
    until("retries are back after the outage", || async {
        target(&world).await["state"] == "allowed"
    })
    .await;
    drop(load);
    world.stop().await;
}
