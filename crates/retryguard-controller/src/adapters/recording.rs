//! Recorded readings: one line of JSON for each round of a source, to be replayed later.
//!
//! A recording is bounded: at [`LARGEST_FILE`] bytes it is renamed to `FILE.1`, which is replaced, and begun anew.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde_json::{Value, json};

use crate::clock::unix_time;
use crate::domain::counts::{Counts, Reading};
use crate::domain::target::TargetName;
use crate::reconcile::source::{Round as Answer, Source};

/// The size at which a recording is begun anew. An hour of a hundred targets with a sample a second has about 40 MB.
pub const LARGEST_FILE: u64 = 256 * 1024 * 1024;

/// The longest line that is read.
const LONGEST_LINE: u64 = 16 * 1024 * 1024;

/// A source whose readings are recorded on their way to the loop.
pub struct RecordedSource {
    inner: Box<dyn Source>,
    recorder: Arc<Mutex<FileRecorder>>,
}

impl RecordedSource {
    /// Records what `inner` reads. Several sources share one recorder.
    #[must_use]
    pub fn new(inner: Box<dyn Source>, recorder: Arc<Mutex<FileRecorder>>) -> Self {
        Self { inner, recorder }
    }
}

impl Source for RecordedSource {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn every(&self) -> Duration {
        self.inner.every()
    }

    fn read(&mut self) -> Answer<'_> {
        Box::pin(async move {
            let readings = self.inner.read().await?;
            let mut recorder = self.recorder.lock().unwrap_or_else(PoisonError::into_inner);
            recorder.record(self.inner.name(), &readings);
            drop(recorder);
            Ok(readings)
        })
    }

    fn compares(&self) -> bool {
        self.inner.compares()
    }
}

/// Writes readings to a file.
#[derive(Debug)]
pub struct FileRecorder {
    path: PathBuf,
    file: File,
    written: u64,
    largest: u64,
    failed: bool,
}

impl FileRecorder {
    /// Appends to the file, which is made where it is missing.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::with_limit(path, LARGEST_FILE)
    }

    fn with_limit(path: &Path, largest: u64) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let written = file.metadata()?.len();
        Ok(Self {
            path: path.to_owned(),
            file,
            written,
            largest,
            failed: false,
        })
    }

    fn write(&mut self, line: &str) -> io::Result<()> {
        let length = line.len() as u64;
        if self.written > 0 && self.written + length > self.largest {
            let mut former = self.path.clone().into_os_string();
            former.push(".1");
            std::fs::rename(&self.path, former)?;
            self.file = OpenOptions::new().create(true).append(true).open(&self.path)?;
            self.written = 0;
        }
        // One call for one line: a reader sees whole lines, and a kill leaves at most the last one cut.
        self.file.write_all(line.as_bytes())?;
        self.written += length;
        Ok(())
    }
}

impl FileRecorder {
    /// Appends one round.
    pub fn record(&mut self, source: &str, readings: &[Reading]) {
        let line = format!("{}\n", line(unix_time(), source, readings));
        let result = self.write(&line);
        // A full disk must not fill the log as well.
        if let Err(error) = &result
            && !self.failed
        {
            tracing::error!(target: "retryguard::controller", path = %self.path.display(), %error, "readings are not recorded");
        }
        self.failed = result.is_err();
    }
}

fn line(at: Duration, source: &str, readings: &[Reading]) -> Value {
    let readings: Vec<Value> = readings
        .iter()
        .map(|reading| {
            let counts = &reading.counts;
            json!({
                "target": reading.target.as_str(),
                "calls": counts.calls,
                "rejected": counts.rejected,
                "retries": counts.retries,
                "retriesSucceeded": counts.retries_succeeded,
                "failed": counts.failed,
                "delaySeconds": counts.delay.map(|delay| delay.as_secs_f64()),
                "ageSeconds": reading.age.as_secs_f64(),
            })
        })
        .collect();
    json!({"at": at.as_secs_f64(), "source": source, "readings": readings})
}

/// One round of a recording.
#[derive(Debug, Clone, PartialEq)]
pub struct Round {
    /// When, since the Unix epoch.
    pub at: Duration,
    /// What was read.
    pub readings: Vec<Reading>,
}

/// Reads a recording round by round.
///
/// # Errors
/// When the file cannot be read, or a line other than the last is not one of a recording: the error names the line. A last line
/// without its end was cut by a kill and is left out.
pub fn read(path: &Path, mut each: impl FnMut(Round)) -> io::Result<u64> {
    let mut reader = BufReader::new(File::open(path)?);
    let (mut number, mut rounds) = (0_u64, 0_u64);
    loop {
        let mut text = Vec::new();
        let read = io::Read::take(&mut reader, LONGEST_LINE).read_until(b'\n', &mut text)?;
        if read == 0 {
            return Ok(rounds);
        }
        number += 1;
        let whole = text.ends_with(b"\n");
        let parsed = std::str::from_utf8(&text).ok().and_then(parse);
        match parsed {
            Some(round) => {
                rounds += 1;
                each(round);
            }
            None if !whole && (read as u64) < LONGEST_LINE => return Ok(rounds),
            None => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!(
                        "line {number} is not one of a recording; record with `retryguard controller --record FILE`"
                    ),
                ));
            }
        }
    }
}

fn parse(text: &str) -> Option<Round> {
    let root: Value = serde_json::from_str(text).ok()?;
    let seconds = |value: &Value| Duration::try_from_secs_f64(value.as_f64()?).ok();
    let readings = root["readings"].as_array()?.iter().map(|reading| {
        let count = |key: &str| match &reading[key] {
            Value::Null => Some(None),
            value => value.as_u64().map(Some),
        };
        let delay = match &reading["delaySeconds"] {
            Value::Null => None,
            value => Some(seconds(value)?),
        };
        Some(Reading {
            target: TargetName::new(reading["target"].as_str()?),
            counts: Counts {
                calls: reading["calls"].as_u64()?,
                rejected: count("rejected")?,
                retries: count("retries")?,
                retries_succeeded: count("retriesSucceeded")?,
                failed: count("failed")?,
                delay,
            },
            age: seconds(&reading["ageSeconds"])?,
        })
    });
    Some(Round {
        at: seconds(&root["at"])?,
        readings: readings.collect::<Option<_>>()?,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn reading(calls: u64, retries: Option<u64>) -> Reading {
        Reading {
            target: TargetName::new("a \"quoted\" name"),
            counts: Counts {
                calls,
                rejected: Some(3),
                retries,
                retries_succeeded: None,
                failed: Some(1),
                delay: Some(Duration::from_millis(250)),
            },
            age: Duration::from_secs(2),
        }
    }

    fn rounds(path: &Path) -> io::Result<Vec<Round>> {
        let mut all = Vec::new();
        read(path, |round| all.push(round))?;
        Ok(all)
    }

    #[test]
    fn what_is_recorded_is_read_back_and_absent_counts_stay_absent() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("readings");
        let mut recorder = FileRecorder::open(&path).unwrap();
        recorder.record("scrape", &[reading(7, None), reading(8, Some(2))]);
        recorder.record("scrape", &[]);
        let found = rounds(&path).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].readings, [reading(7, None), reading(8, Some(2))]);
    }

    #[test]
    fn a_recording_is_bounded_and_its_former_part_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("readings");
        let mut recorder = FileRecorder::with_limit(&path, 600).unwrap();
        for calls in 0..20 {
            recorder.record("scrape", &[reading(calls, None)]);
        }
        let (former, latest) = (
            rounds(&folder.path().join("readings.1")).unwrap(),
            rounds(&path).unwrap(),
        );
        assert_eq!(latest.last().unwrap().readings[0].counts.calls, 19);
        assert!(!former.is_empty());
        assert!(std::fs::metadata(&path).unwrap().len() <= 600);
    }

    #[test]
    fn a_line_that_a_kill_cut_is_left_out_and_a_wrong_one_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("readings");
        FileRecorder::open(&path)
            .unwrap()
            .record("scrape", &[reading(7, None)]);
        let whole = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("{whole}{}", &whole[..40])).unwrap();
        assert_eq!(rounds(&path).unwrap().len(), 1);
        std::fs::write(&path, format!("{whole}hello\n")).unwrap();
        let error = rounds(&path).unwrap_err().to_string();
        assert!(error.contains("line 2"), "{error}");
    }

    proptest! {
        #[test]
        fn no_line_brings_it_down(text in "\\PC{0,100}") {
            let _ = parse(&text);
        }
    }
}
