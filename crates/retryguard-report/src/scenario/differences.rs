//! Every policy beside one of them, over the same replications.

use retryguard_sim::{
    comparison::{COLUMNS, Kind, Summary, column, is_significant},
    statistics::Estimate,
};
use serde_json::{Map, Value, json};

use crate::table::aligned;

/// The columns whose differences are shown in the table.
const SHOWN: [&str; 6] = [
    "goodputPerSecond",
    "successRate",
    "attempts",
    "meanMs",
    "p95Ms",
    "bill",
];

/// The table, with the head first; a difference that is not significant stands in brackets.
pub(super) fn text(summaries: &[Summary], against: &str) -> String {
    let Some(base) = summaries.iter().find(|it| it.name == against) else {
        return String::new();
    };
    let says = |key: &&str| {
        summaries
            .iter()
            .any(|it| it.get(key).is_some_and(|it| it.mean != 0.0))
    };
    let keys: Vec<&str> = SHOWN.into_iter().filter(says).collect();
    let title = |key: &&str| column(key).map_or("", |column| column.title).to_owned();
    let mut rows = vec![
        std::iter::once(format!("less {against}"))
            .chain(keys.iter().map(title))
            .collect::<Vec<_>>(),
    ];
    for summary in summaries.iter().filter(|it| it.name != against) {
        let mut row = vec![summary.name.clone()];
        row.extend(keys.iter().map(|key| {
            let found = summary.difference(base, key);
            found.map_or_else(String::new, |it| cell(&it, key))
        }));
        rows.push(row);
    }
    format!(
        "paired differences, ± half of the 95 % confidence interval; in brackets where not significant:\n{}\n{}\n",
        aligned(&rows),
        goodput(summaries, base)
    )
}

/// Which policies have more and which less goodput than the base, in a sentence.
fn goodput(summaries: &[Summary], base: &Summary) -> String {
    let others: Vec<&Summary> = summaries.iter().filter(|it| it.name != base.name).collect();
    let clear = |sign: f64| -> Vec<&str> {
        let differs = |other: &&&Summary| {
            let found = other.difference(base, "goodputPerSecond");
            found.is_some_and(|it| it.half_width.is_some() && is_significant(&it) && it.mean * sign > 0.0)
        };
        let found = others.iter().filter(differs);
        found.map(|other| other.name.as_str()).collect()
    };
    let (more, less) = (clear(1.0), clear(-1.0));
    let mut parts = Vec::new();
    if !more.is_empty() {
        parts.push(format!(
            "{} served significantly more than {}",
            more.join(", "),
            base.name
        ));
    }
    if !less.is_empty() {
        parts.push(format!(
            "{} served significantly less than {}",
            less.join(", "),
            base.name
        ));
    }
    match parts.is_empty() {
        true => format!("No policy served significantly more or less than {}.", base.name),
        false => format!("{}.", parts.join("; ")),
    }
}

fn cell(difference: &Estimate, key: &str) -> String {
    let share = column(key).is_some_and(|column| column.kind == Kind::Share);
    let scale = if share { 100.0 } else { 1.0 };
    let number = |value: f64| match (value * scale).abs() {
        size if size >= 100.0 => format!("{:.0}", value * scale),
        size if size >= 0.1 => format!("{:.2}", value * scale),
        _ => format!("{:.5}", value * scale),
    };
    let sign = if difference.mean > 0.0 { "+" } else { "" };
    let mut out = format!("{sign}{}", number(difference.mean));
    if let Some(half) = difference.half_width {
        out += &format!(" ±{}", number(half));
    }
    let unclear = difference.half_width.is_some() && !is_significant(difference);
    if unclear { format!("({out})") } else { out }
}

/// The same for other programs, with every column.
pub(super) fn json(summaries: &[Summary], against: &str) -> Value {
    let Some(base) = summaries.iter().find(|it| it.name == against) else {
        return Value::Null;
    };
    let of = |summary: &Summary| {
        let mut all = Map::new();
        all.insert("name".to_owned(), json!(summary.name));
        for column in COLUMNS {
            let value = summary.difference(base, column.key).map_or(Value::Null, |it| {
                let ends = it.half_width.map(|_| [it.low(), it.high()]);
                let clear = it.half_width.map(|_| is_significant(&it));
                json!({"mean": it.mean, "ci95": ends, "significant": clear})
            });
            all.insert(column.key.to_owned(), value);
        }
        Value::Object(all)
    };
    let others = summaries.iter().filter(|it| it.name != against);
    json!({"against": against, "policies": others.map(of).collect::<Vec<_>>()})
}

#[cfg(test)]
mod tests {
    use retryguard_sim::{
        comparison::{Plan, compare},
        scenario::Scenario,
        statistics::Tally,
        streams::Seed,
    };

    use super::*;
    use crate::{
        scenario::{run, run_until},
        verdict::sentence,
    };

    fn scenario() -> Scenario {
        let text = "duration: 20s\nservices:\n  store: {workers: 8, time: {exponential: 50ms}, errors: 10%}\n\
                    clients:\n  people: {calls: store, rate: 30, deadline: 2s}\npolicies: [none, immediate]\n";
        Scenario::parse(text, "small", &mut |path| Err(format!("{path} is not there"))).unwrap()
    }

    fn plan(replications: u32) -> Plan {
        Plan {
            seed: Seed(1),
            replications,
            threads: 1,
        }
    }

    #[test]
    fn differences_stand_in_the_table_and_in_json_where_they_are_asked_for() {
        let plain = run(scenario(), &plan(6), &|| ());
        assert!(!plain.text().contains("paired") && !plain.json().contains("differences"));
        let found = plain.against("none".to_owned());
        let text = found.text();
        assert!(
            text.contains("paired differences") && text.contains("less none"),
            "{text}"
        );
        assert!(
            text.ends_with("immediate served significantly more than none.\n"),
            "{text}"
        );
        let all: Value = serde_json::from_str(&found.json()).unwrap();
        assert_eq!(all["differences"]["against"], "none");
        let immediate = &all["differences"]["policies"][0];
        assert_eq!(immediate["name"], "immediate");
        assert_eq!(immediate["retriesPerCall"]["significant"], true);
        assert_eq!(immediate["calls"]["significant"], false, "the same calls come");
        assert_eq!(immediate["calls"]["mean"], 0.0);
        assert_eq!(immediate["recoverySeconds"], Value::Null);
    }

    #[test]
    fn a_result_that_was_stopped_says_so() {
        let known = run_until(scenario(), &plan(50), 0.5, &|| ());
        assert!(
            known.text().contains("every difference of goodput"),
            "{}",
            known.text()
        );
        let not = run_until(scenario(), &plan(6), 1e-9, &|| ());
        assert!(
            not.text().contains("the limit was reached before"),
            "{}",
            not.text()
        );
        let all: Value = serde_json::from_str(&not.json()).unwrap();
        assert_eq!(all["replications"], 6);
    }

    /// 20 points more on average are nothing where single replications differ by 60.
    #[test]
    fn the_verdict_says_what_is_not_significant() {
        let scenario = scenario();
        let mut found = compare(&scenario.world, &scenario.policies, &[], &plan(3), &|_| ());
        let index = COLUMNS
            .iter()
            .position(|column| column.key == "successRate")
            .unwrap();
        let mut set = |policy: usize, values: [f64; 3]| {
            let summary: &mut Summary = &mut found[policy];
            summary.columns[index] = Some(values.into_iter().collect::<Tally>().estimate());
            summary.values[index] = Some(values.to_vec());
            sentence(&found)
        };
        set(0, [0.5, 0.5, 0.5]);
        let unclear = set(1, [0.3, 0.9, 0.9]);
        assert!(
            unclear.contains("20 points more than `none` (not significant)"),
            "{unclear}"
        );
        let clear = set(1, [0.69, 0.7, 0.71]);
        assert!(clear.contains("20 points more than `none`"), "{clear}");
        assert!(!clear.contains("not significant"), "{clear}");
    }
}
