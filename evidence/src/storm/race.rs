//! Both on the same files, and the page that tells of it.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use serde_json::{Value, json};

use super::page::{COLUMNS, HEAD, SECTIONS, SOUND_COLUMNS};
use super::races::Race;
use super::{ask, checker, python, target};

const PAGE: &str = "docs/evidence/model-checker-speed.md";

/// What one of the two took.
struct Took {
    states: String,
    /// Of processor time.
    seconds: f64,
    gigabytes: f64,
    values: Vec<f64>,
}

/// What takes less is measured three times, and the least counts.
const SHORT: f64 = 2.0;

/// Seconds of processor time after which Storm is not waited for any longer.
const LIMIT: u32 = 60;

/// Runs every race, ours on one thread, and writes the page; with `only` the races with that in their title. The page is written once
/// every race was run with the same build of the checker, in one run or in several. Storm's large breaker is not run unless `all`: it takes
/// a quarter of an hour and 17 GB.
pub(crate) fn race(all: bool, only: &str) -> anyhow::Result<()> {
    let mut chosen = SECTIONS.iter().flat_map(|(_, races)| races.iter());
    if !chosen.any(|race| race.title.contains(only)) {
        bail!("no model has {only} in its title");
    }
    let python = python()?;
    let command = checker()?;
    let mut rows = Rows::read(&command)?;
    let mut slow = Vec::new();
    for race in SECTIONS.iter().flat_map(|(_, races)| races.iter()) {
        if !race.title.contains(only) {
            continue;
        }
        for properties in race.asked() {
            let (line, quick) = run(&python, &command, race, properties, all)?;
            println!("{line}");
            let key = key(race, properties);
            if !quick {
                slow.push(key.clone());
            }
            rows.add(key, line, quick)?;
        }
    }
    match rows.page() {
        Some(page) => std::fs::write(PAGE, page).with_context(|| format!("cannot write {PAGE}"))?,
        None => println!("the page is written when the other models were run with this build, too"),
    }
    if !slow.is_empty() {
        bail!("slower or larger than wanted: {}", slow.join("; "));
    }
    Ok(())
}

fn key(race: &Race, properties: &[&str]) -> String {
    format!("{} `{}`", race.title, name(race, properties))
}

fn name<'p>(race: &Race, properties: &[&'p str]) -> &'p str {
    if race.each { properties[0] } else { "both times" }
}

/// The rows that were measured with one build of the checker, kept below the build folder.
struct Rows {
    file: PathBuf,
    build: u64,
    rows: BTreeMap<String, (String, bool)>,
}

impl Rows {
    fn read(command: &Path) -> anyhow::Result<Rows> {
        let mut hasher = DefaultHasher::new();
        std::fs::read(command)?.hash(&mut hasher);
        let mut read = Rows {
            file: target().join("model-speed.json"),
            build: hasher.finish(),
            rows: BTreeMap::new(),
        };
        read.refresh();
        Ok(read)
    }

    /// Reads what was kept for this build, also by a run beside this one.
    fn refresh(&mut self) {
        if let Ok(text) = std::fs::read_to_string(&self.file)
            && let Ok((build, rows)) = serde_json::from_str::<(u64, BTreeMap<_, _>)>(&text)
            && self.build == build
        {
            self.rows.extend(rows);
        }
    }

    fn add(&mut self, key: String, line: String, quick: bool) -> anyhow::Result<()> {
        self.refresh();
        self.rows.insert(key, (line, quick));
        let text = serde_json::to_string(&(self.build, &self.rows))?;
        std::fs::write(&self.file, text).with_context(|| format!("cannot write {}", self.file.display()))
    }

    /// The page, where no row is missing.
    fn page(&self) -> Option<String> {
        let mut page = HEAD.to_owned();
        let mut slow = Vec::new();
        for (text, races) in SECTIONS {
            page += text;
            page += match races.iter().any(|race| race.sound) {
                true => SOUND_COLUMNS,
                false => COLUMNS,
            };
            for race in *races {
                for properties in race.asked() {
                    let key = key(race, properties);
                    let (line, quick) = self.rows.get(&key)?;
                    page += line;
                    page += "\n";
                    if !quick {
                        slow.push(key);
                    }
                }
            }
        }
        page += &match slow.as_slice() {
            [] => "\nEvery question is answered as fast as wanted, and in less memory.\n".to_owned(),
            slow => format!("\nSlower or larger than wanted: {}.\n", slow.join("; ")),
        };
        Some(page)
    }
}

/// A line of the table, and whether we are as fast and as small as wanted.
fn run(
    python: &Path,
    command: &Path,
    race: &Race,
    properties: &[&str],
    all: bool,
) -> anyhow::Result<(String, bool)> {
    let ours = least(|| ours(python, command, race, properties))?;
    let theirs = match race.reference {
        Some((seconds, gigabytes)) if !all || seconds.is_infinite() => Took {
            states: "given, not run".to_owned(),
            seconds,
            gigabytes,
            values: Vec::new(),
        },
        _ => least(|| theirs(python, race, properties, Setting::Default))?,
    };
    let ratio = theirs.seconds / ours.seconds;
    let mut quick = ratio >= race.wanted;
    let mut line = format!(
        "| {} | `{}` | {} | {:.4} | {:.3} | {} | {} | {} | {} | {} | {} |",
        race.title,
        name(race, properties),
        ours.states,
        ours.seconds,
        ours.gigabytes,
        theirs.states,
        figure(theirs.seconds),
        figure(theirs.gigabytes),
        apart(&ours.values, &theirs.values).map_or_else(|| "–".to_owned(), |apart| format!("{apart:.0e}")),
        figure(ratio),
        race.wanted
    );
    if race.sound {
        let sound = least(|| self::theirs(python, race, properties, Setting::Sound))?;
        let ratio = sound.seconds / ours.seconds;
        quick &= ratio >= 1.0 && !(ours.gigabytes > theirs.gigabytes || ours.gigabytes > sound.gigabytes);
        let seconds = match sound.values.as_slice() {
            [] => sound.states,
            _ => figure(sound.seconds),
        };
        line += &format!(" {seconds} | {} | {} |", figure(sound.gigabytes), figure(ratio));
    }
    Ok((line, quick))
}

/// How far apart values are, relative to the larger.
fn apart(ours: &[f64], theirs: &[f64]) -> Option<f64> {
    let pairs = ours.iter().zip(theirs);
    let largest = pairs.map(|(a, b)| {
        if a == b {
            0.0
        } else {
            (a - b).abs() / a.abs().max(b.abs())
        }
    });
    largest.reduce(f64::max)
}

/// A number, or a dash where it has no end.
fn figure(value: f64) -> String {
    if value.is_finite() {
        format!("{value:.3}")
    } else {
        "–".to_owned()
    }
}

fn least(measure: impl Fn() -> anyhow::Result<Took>) -> anyhow::Result<Took> {
    let mut best = measure()?;
    for _ in 0..2 {
        if best.seconds < SHORT {
            let again = measure()?;
            if again.seconds < best.seconds {
                best = again;
            }
        }
    }
    Ok(best)
}

/// Runs a program and says how much memory and processor time it took: those of children are what Python can read without an unsafe
/// call.
const MEASURE: &str = "import json,resource,subprocess,sys\n\
    out=subprocess.run(sys.argv[1:],stdout=subprocess.PIPE,check=True).stdout\n\
    took=resource.getrusage(resource.RUSAGE_CHILDREN)\n\
    print(json.dumps({'peak':took.ru_maxrss,'seconds':took.ru_utime+took.ru_stime,'answer':json.loads(out)}))";

fn ours(python: &Path, command: &Path, race: &Race, properties: &[&str]) -> anyhow::Result<Took> {
    let mut run = Command::new(python);
    run.arg("-c")
        .arg(MEASURE)
        .arg(command)
        .args(["check", race.model, "--json", "--threads", "1"]);
    run.args(["--const", race.constants]);
    for property in properties {
        run.args(["--prop", property]);
    }
    let output = run.output().context("cannot run the checker")?;
    if !output.status.success() {
        bail!("{}: {}", race.title, String::from_utf8_lossy(&output.stderr));
    }
    let answer: Value = serde_json::from_slice(&output.stdout)?;
    let results = answer["answer"]["results"].as_array().context("no results")?;
    let values: Vec<&Value> = results.iter().map(|result| &result["value"]).collect();
    Took::read(&answer, &results[0]["states"], &values)
}

/// How Storm is asked.
enum Setting {
    /// As it comes: a precision of 1e-6 that is not proven.
    Default,
    /// With proven bounds, and the same precision.
    Sound,
}

fn theirs(python: &Path, race: &Race, properties: &[&str], setting: Setting) -> anyhow::Result<Took> {
    let mut job = json!({
        "model": race.model,
        "constants": race.constants,
        "properties": properties,
    });
    match setting {
        Setting::Default => job["default"] = true.into(),
        Setting::Sound => job["sound"] = true.into(),
    }
    // The reference is waited for.
    if race.reference.is_none() {
        job["limit"] = LIMIT.into();
    }
    let answer = ask(python, &job)?;
    if answer["late"] == true {
        return Ok(Took {
            states: format!("no answer in {LIMIT} s"),
            seconds: f64::from(LIMIT),
            gigabytes: f64::NAN,
            values: Vec::new(),
        });
    }
    let values: Vec<&Value> = answer["values"].as_array().into_iter().flatten().collect();
    Took::read(&answer, &answer["states"], &values).with_context(|| format!("{}: {answer}", race.title))
}

impl Took {
    fn read(answer: &Value, states: &Value, values: &[&Value]) -> anyhow::Result<Took> {
        Ok(Took {
            states: states.to_string(),
            seconds: answer["seconds"].as_f64().context("no time was measured")?,
            gigabytes: answer["peak"].as_f64().unwrap_or(0.0) / 1e6,
            values: values.iter().filter_map(|value| value.as_f64()).collect(),
        })
    }
}
