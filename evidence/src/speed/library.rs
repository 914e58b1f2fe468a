//! The benchmarks beside the peers, and the page that tells of them.

use std::{collections::HashMap, fmt::Write, process::Command};

use anyhow::{Context, bail};

/// What the whole stack shall cost at the most.
const STACK_INSTRUCTIONS: f64 = 400.0;
const STACK_NANOS: f64 = 150.0;
const STACK_NANOS_TOGETHER: f64 = 250.0;
/// What the layers shall add to the bare HTTP service at the most, and a recorder of metrics to the whole stack.
const CLIENT_INSTRUCTIONS: f64 = 1_500.0;
const CLIENT_ALLOCATIONS: f64 = 2.0;
const SERVER_INSTRUCTIONS: f64 = 700.0;
const RECORDER_INSTRUCTIONS: f64 = 150.0;
/// How many times its peer's time a single pattern shall take at the most.
const PATTERN_TIMES: f64 = 1.5;
const PATTERNS: [&str; 5] = ["retry", "breaker", "throttle", "bulkhead", "deadline"];

const PAGE: &str = "docs/evidence/benchmarks.md";

/// The subjects that many threads call at once.
const CROWDED: &[&str] = &[
    "bare",
    "tower-retry",
    "tower-limit",
    "resilience-breaker",
    "breaker",
    "stack",
    "default",
    "http",
    "server",
];

/// Runs every subject and writes the page.
pub(crate) fn write() -> anyhow::Result<()> {
    xtask::parts::valgrind()?;
    let versions = versions()?;
    let load = load();
    let subjects: Vec<Subject> = {
        let timings = table(&["--bin=speed", "--", "time"])?;
        let instructions = table(&["--bin=speed", "--", "instructions"])?;
        let allocations = table(&["--bin=allocations"])?;
        lines(&["--bin=speed", "--", "list"])?
            .iter()
            .map(|line| Subject::read(line, &timings, &instructions, &allocations))
            .collect::<anyhow::Result<_>>()?
    };
    let crowds = table(&[&["--bin=speed", "--", "crowds"], CROWDED].concat())?;
    let many = table(&["--bin=speed", "--", "many"])?;
    std::fs::write(PAGE, page(&subjects, &crowds, &many, &versions, load))
        .with_context(|| format!("cannot write {PAGE}"))?;
    eprintln!("== benchmarks: {PAGE} is written");
    Ok(())
}

struct Subject {
    name: String,
    package: String,
    peer: Option<String>,
    what: String,
    alone: f64,
    together: f64,
    /// The undisturbed rounds of all threads.
    rounds: f64,
    instructions: f64,
    allocations: f64,
}

type Table = HashMap<String, Vec<f64>>;

impl Subject {
    fn read(line: &str, timings: &Table, instructions: &Table, allocations: &Table) -> anyhow::Result<Self> {
        let [name, package, peer, what] = line.split('\t').collect::<Vec<_>>()[..] else {
            bail!("not a subject: {line}");
        };
        let figure = |table: &Table, column: usize| {
            table
                .get(name)
                .and_then(|figures| figures.get(column).copied())
                .with_context(|| format!("`{name}` was not measured"))
        };
        Ok(Self {
            name: name.to_owned(),
            package: package.to_owned(),
            peer: (peer != "-").then(|| peer.to_owned()),
            what: what.to_owned(),
            alone: figure(timings, 0)?,
            together: figure(timings, 1)?,
            rounds: figure(timings, 2)?,
            instructions: figure(instructions, 0)?,
            allocations: figure(allocations, 0)?,
        })
    }
}

fn lines(arguments: &[&str]) -> anyhow::Result<Vec<String>> {
    eprintln!("== benchmarks: {}", arguments.join(" "));
    let output = Command::new("cargo")
        .args([
            "run",
            "--quiet",
            "--release",
            "--package=retryguard-bench",
            "--features=peers",
        ])
        .args(arguments)
        .stderr(std::process::Stdio::inherit())
        .output()
        .context("cannot run the benchmarks")?;
    if !output.status.success() {
        bail!("the benchmarks failed ({})", output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(str::to_owned)
        .collect())
}

/// Names and their figures.
fn table(arguments: &[&str]) -> anyhow::Result<Table> {
    lines(arguments)?
        .iter()
        .map(|line| {
            let mut cells = line.split('\t');
            let name = cells.next().unwrap_or_default().to_owned();
            let figures = cells.map(str::parse).collect::<Result<_, _>>();
            Ok((name, figures.with_context(|| format!("no figures: {line}"))?))
        })
        .collect()
}

/// The versions of all packages in the lock file.
fn versions() -> anyhow::Result<HashMap<String, String>> {
    let lock = std::fs::read_to_string("Cargo.lock").context("cannot read Cargo.lock")?;
    let value = |line: &str, key: &str| {
        line.strip_prefix(key)
            .map(|rest| rest.trim_matches([' ', '=', '"']).to_owned())
    };
    let mut versions = HashMap::new();
    let mut name = String::new();
    for line in lock.lines() {
        if let Some(found) = value(line, "name") {
            name = found;
        } else if let Some(version) = value(line, "version") {
            versions.insert(name.clone(), version);
        }
    }
    Ok(versions)
}

fn page(
    subjects: &[Subject],
    crowds: &Table,
    many: &Table,
    versions: &HashMap<String, String>,
    load: Option<f64>,
) -> String {
    let mut page = String::from(HEAD);
    page += &machine(load);
    page += TABLE_HEAD;
    for it in subjects {
        let by = match versions.get(&it.package) {
            Some(version) if it.package != "retryguard-bench" => format!("{} {version}", it.package),
            _ => "–".to_owned(),
        };
        let ours = it.package == "retryguard";
        let mark = if ours { "**" } else { "" };
        let _ = writeln!(
            page,
            "| {mark}{}{mark} | {by} | {} | {} | {} | {} | {} |",
            it.what,
            figure(it.alone, 0),
            figure(it.together, 0),
            it.rounds,
            figure(it.instructions, 0),
            it.allocations
        );
    }
    page += "\n## Beside the nearest peer\n\n";
    page += "Ours divided by the peer's: below 1 we are cheaper.\n\n";
    page += "| ours | peer | time, one thread | time, all threads | instructions |\n| --- | --- | --- | --- | --- |\n";
    let mut behind = Vec::new();
    for it in subjects {
        let Some(peer) = peer_of(it, subjects) else {
            continue;
        };
        let (alone, together) = (it.alone / peer.alone, it.together / peer.together);
        let instructions = it.instructions / peer.instructions;
        let _ = writeln!(
            page,
            "| {} | {}: {} | {} | {} | {} |",
            it.what,
            peer.package,
            peer.what,
            figure(alone, 2),
            figure(together, 2),
            figure(instructions, 2)
        );
        if alone > 1.0 || together > 1.0 || instructions > 1.0 {
            behind.push(format!(
                "- {}: {} ns and {:.0} instructions, {} ({}) {} ns and {:.0}.",
                it.what,
                figure(it.alone, 0),
                it.instructions,
                peer.package,
                peer.what,
                figure(peer.alone, 0),
                peer.instructions
            ));
        }
    }
    page += &crowd_table(subjects, crowds, load.is_some_and(is_busy));
    page += &many_table(many);
    page += "\n## Where we are not there\n\n";
    page += &aims(subjects);
    if !behind.is_empty() {
        page += "\nDearer than the nearest peer, in time or in instructions:\n\n";
        page += &behind.join("\n");
        page.push('\n');
    }
    page += WHY;
    page
}

/// What many threads on one target do together, beside what one does.
fn crowd_table(subjects: &[Subject], crowds: &Table, busy: bool) -> String {
    let mut told = String::from(CROWD_HEAD);
    if busy {
        told += CROWD_OF_A_BUSY_MACHINE;
    }
    let threads = crowds.get("threads").map_or(&[][..], Vec::as_slice);
    told += "| call | package |";
    for count in threads {
        let _ = write!(told, " {count} |");
    }
    let _ = writeln!(told, "\n| --- | --- |{}", " --- |".repeat(threads.len()));
    for it in subjects {
        let Some(figures) = crowds.get(&it.name) else {
            continue;
        };
        let alone = figures.first().copied().unwrap_or(f64::NAN);
        let mark = if it.package == "retryguard" { "**" } else { "" };
        let _ = write!(told, "| {mark}{}{mark} | {} |", it.what, it.package);
        for together in figures {
            let _ = write!(told, " {} |", figure(together / alone, 2));
        }
        told.push('\n');
    }
    told
}

/// What one of many calls at once takes.
fn many_table(many: &Table) -> String {
    let mut told = String::from(MANY_HEAD);
    let mut rows: Vec<_> = many
        .iter()
        .filter_map(|(calls, figures)| Some((calls.parse::<u64>().ok()?, figures)))
        .collect();
    rows.sort_unstable_by_key(|(calls, _)| *calls);
    for (calls, figures) in rows {
        let cells: Vec<String> = figures.iter().map(|value| figure(*value, 0)).collect();
        let _ = writeln!(told, "| {calls} | {} |", cells.join(" | "));
    }
    told
}

/// A figure, or a dash where the machine was too busy to measure it.
fn figure(value: f64, digits: usize) -> String {
    if value.is_nan() {
        "–".to_owned()
    } else {
        format!("{value:.digits$}")
    }
}

fn peer_of<'a>(it: &Subject, subjects: &'a [Subject]) -> Option<&'a Subject> {
    let name = it.peer.as_ref()?;
    subjects
        .iter()
        .find(|peer| peer.name == *name && peer.name != "bare")
}

/// How we stand to what we shall cost.
fn aims(subjects: &[Subject]) -> String {
    let of = |name: &str| subjects.iter().find(|it| it.name == name);
    let (Some(stack), Some(recorded)) = (of("stack"), of("stack-recorded")) else {
        return String::new();
    };
    let (Some(bare), Some(client), Some(server)) = (of("http-bare"), of("http"), of("server")) else {
        return String::new();
    };
    let dearest = PATTERNS
        .iter()
        .filter_map(|name| of(name).and_then(|it| Some(it.alone / peer_of(it, subjects)?.alone)))
        .fold(f64::NAN, f64::max);
    let mut told = String::from("What a call shall cost at the most, and what it costs:\n\n");
    told += "| | aim | measured | |\n| --- | --- | --- | --- |\n";
    for (what, aim, measured) in [
        (
            "whole stack, instructions",
            STACK_INSTRUCTIONS,
            stack.instructions,
        ),
        ("whole stack, ns, one thread", STACK_NANOS, stack.alone),
        (
            "whole stack, ns, all threads on one target",
            STACK_NANOS_TOGETHER,
            stack.together,
        ),
        ("whole stack, allocations", 0.0, stack.allocations),
        (
            "what a Prometheus recorder adds to it, instructions",
            RECORDER_INSTRUCTIONS,
            recorded.instructions - stack.instructions,
        ),
        (
            "what `HttpLayer` adds, instructions",
            CLIENT_INSTRUCTIONS,
            client.instructions - bare.instructions,
        ),
        (
            "what `HttpLayer` adds, allocations",
            CLIENT_ALLOCATIONS,
            client.allocations - bare.allocations,
        ),
        (
            "what `ServerLayer` adds, instructions",
            SERVER_INSTRUCTIONS,
            server.instructions - bare.instructions,
        ),
        (
            "what `ServerLayer` adds, allocations",
            0.0,
            server.allocations - bare.allocations,
        ),
        (
            "the dearest single pattern, in times of its peer's ns",
            PATTERN_TIMES,
            dearest,
        ),
    ] {
        let verdict = if measured.is_nan() {
            "not measured"
        } else if measured <= aim {
            "there"
        } else {
            "not there"
        };
        let _ = writeln!(
            told,
            "| {what} | {aim} | {} | {verdict} |",
            figure(measured, if aim.fract() == 0.0 { 0 } else { 1 })
        );
    }
    told
}

/// The load average of the last minute, where Linux says so.
fn load() -> Option<f64> {
    let told = std::fs::read_to_string("/proc/loadavg").ok()?;
    told.split_whitespace().next()?.parse().ok()
}

/// Whether other work disturbs what is timed.
fn is_busy(load: f64) -> bool {
    load > 0.5
}

fn machine(load: Option<f64>) -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map_or("an unknown processor", |(_, model)| model.trim());
    let rustc = Command::new("rustc").arg("--version").output();
    let rustc = rustc
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        .unwrap_or_default();
    let mut told =
        format!("\nMeasured on {model}, {cores} cores, {rustc}, the release profile of this workspace.\n");
    if let Some(load) = load {
        let busy = if is_busy(load) {
            ": **the machine was busy with other work**, so that only the ratios of times within this run mean something, and \
             those of several threads little. Instructions and allocations do not depend on it"
        } else {
            ""
        };
        let _ = writeln!(told, "The load average was {load:.1} at the beginning{busy}.");
    }
    told
}

const HEAD: &str = "\
# Benchmarks

Written by `cargo xtask evidence library-speed`; not compared by a test, because speed differs between machines. What is gated is
what is steady: allocations, and the instructions of the whole stack and of the HTTP layers (`evidence/bench/tests/gate.rs`).

One call that succeeds at once, on a service that is always ready: what is measured is the library alone. Peers that
are not tower services wrap a plain function. Times are medians of many short rounds in which all subjects take
turns, so that a busy machine slows all of them; with several threads, all of them call one target, and the time is
what one caller sees. Only rounds count in which every thread had a core all along (a dash where there was none):
threads that take turns on a core do not meet at the target. Times of several threads differ by a factor of two
between runs, and mean little where few rounds stand behind them. Instructions are counted by callgrind, as the
difference between a long and a short run, where reading the clock counts as the few instructions before the system
call. No metrics recorder is installed.
";

const CROWD_HEAD: &str = "
## Many threads on one target

How many calls all threads together make in a second, as a multiple of what one thread makes: the best of five short rounds of
the same run. 1 means that further threads add nothing, and below 1 they are in each other's way. With more threads than cores a
thread is interrupted now and then while it holds the lock, and the others wait for it.

";

const CROWD_OF_A_BUSY_MACHINE: &str = "\
**The machine was busy with other work in this run**: threads waited for a core and not for each other, and a figure above the number of
cores is noise. The table says something only of a quiet machine.

";

const MANY_HEAD: &str = "
## Many calls at once on one target

What one of so many calls takes that are all under way at once, on one thread: until it has sent its attempt and waits with a
timer for its deadline, and from the answer to its end. The whole stack without its bulkhead; a hundred thousand calls in all, the
best of five rounds. What grows is the time for memory that no cache holds.

| calls at once | ns, begin | ns, end | bytes of the future |
| --- | --- | --- | --- |
";

const TABLE_HEAD: &str = "
| call | package | ns, one thread | ns, all threads | in rounds | instructions | allocations |
| --- | --- | --- | --- | --- | --- | --- |
";

const WHY: &str = "
## Why

Every layer of ours runs the one engine, whatever the policy switches on: it reads the clock when a call begins and
when its attempt ends, takes the target's lock both times, and tells the telemetry. The breaker's machine alone, with
its two locks and two looks at the clock, shows what that floor costs. A peer that does not look at the clock while
all is well (`failsafe`, `recloser`), or keeps all it knows in one atomic or semaphore (`governor`, tower's limit), is
below it. Above the floor a further pattern of ours costs a few nanoseconds on one thread, where the layers of the
peers add up.

Threads that do nothing but call one target spend most of their time on handing its state over: some ten cache lines go
from one core to the other, at the beginning and at the end of a call. A thread that finds the lock taken stays away for a moment,
so that the other one makes several calls; where a call does more between its two locks, as with HTTP, each of them hands over.
The time of several threads needs many undisturbed rounds, and differs by a third between runs all the same.

Of the instructions, about 60 read the clock twice. It is the system's own, in nanoseconds; a build in which tokio's clock can be
paused reads tokio's, which takes about 160. The lock stays: one writer is what lets a test walk the machines through
every order of events.

The rows of HTTP include the making of a request with three headers, which the bare HTTP service shows alone. Of what
`HttpLayer` adds, about a third is the engine. The rest is spent on what a retry needs (a copy of the caller's headers and address),
on the header with the deadline, and on moving requests and responses through the layers.

The rows of reqwest include the clone of one request for each call, which the first of them shows alone; no network is
there. The rows of tonic include HTTP/2 on both sides of a pipe within the process, with client and server on one
thread, so that their ratio is what `TonicLayer` adds to a whole call.

The token bucket of the AWS SDK is not in the table: it cannot be called from outside `aws-smithy-runtime` without
the SDK's whole orchestrator.
";
