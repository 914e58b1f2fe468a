//! The public contest of backoffs, beside its reported numbers.

use retryguard_sim::{
    contest::{REPORTED, contestants, rounds},
    statistics::Estimate,
    streams::Seed,
};

use retryguard_report::table::aligned;

struct Line {
    clients: u32,
    name: &'static str,
    writes: Estimate,
    millis: Estimate,
    reported: (f64, f64),
}

fn lines(seed: u64, count: u32) -> Vec<Line> {
    let contestants = contestants();
    REPORTED
        .iter()
        .filter_map(|&(clients, name, writes, millis)| {
            let (_, backoff) = contestants.iter().find(|(known, _)| *known == name)?;
            let (found_writes, found_millis) = rounds(clients, backoff.as_ref(), Seed(seed), count);
            Some(Line {
                clients,
                name,
                writes: found_writes,
                millis: found_millis,
                reported: (writes, millis),
            })
        })
        .collect()
}

pub(crate) fn text(seed: u64, count: u32) -> String {
    let mut rows = vec![
        ["clients", "backoff", "writes", "reported", "ms", "reported"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for line in lines(seed, count) {
        rows.push(vec![
            line.clients.to_string(),
            line.name.to_owned(),
            shown(line.writes),
            line.reported.0.to_string(),
            shown(line.millis),
            line.reported.1.to_string(),
        ]);
    }
    format!(
        "the contest of backoffs: seed {seed}, means of {count} rounds\n\n{}",
        aligned(&rows)
    )
}

fn shown(estimate: Estimate) -> String {
    let half = estimate
        .half_width
        .map_or_else(String::new, |half| format!(" ±{half:.1}"));
    format!("{:.1}{half}", estimate.mean)
}
