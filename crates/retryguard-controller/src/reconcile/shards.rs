//! Several control loops in one process, one for each shard of the targets.
//!
//! Each shard is a controller of its own, with an election of its own: what holds for one controller holds for each shard, and a
//! process that leads one of them does not depend on the leaders of the others. Only what operators look at is put together, and
//! shards are handed over to a process that leads fewer.

use std::future::Future;

use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

use crate::reconcile::balance::Balance;
use crate::reconcile::control_loop::{
    Components, Ended, MOST_QUERIES, Query, QuerySender, not_panicked, run, run_of_several,
};

/// Runs all shards until `stop`; each then restores what it changed. How the worst of them ended.
pub async fn run_shards(
    mut shards: Vec<Components>,
    mut queries: mpsc::Receiver<Query>,
    stop: impl Future<Output = ()>,
) -> Ended {
    if shards.len() == 1
        && let Some(only) = shards.pop()
    {
        return run(only, queries, stop).await;
    }
    let (ending, stopped) = watch::channel(false);
    let mut loops = JoinSet::new();
    let mut asked: Vec<QuerySender> = Vec::new();
    let balance = Balance::of(shards.len());
    for (components, balance) in shards.into_iter().zip(balance) {
        let (sender, received) = mpsc::channel(MOST_QUERIES);
        asked.push(sender);
        let mut stopped = stopped.clone();
        let stop = async move {
            // The sender is dropped only after it has said so.
            let _ = stopped.wait_for(|ending| *ending).await;
        };
        loops.spawn(run_of_several(components, Some(balance), received, stop));
    }
    tokio::pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => break,
            Some(ended) = loops.join_next() => {
                not_panicked(ended);
            }
            Some(query) = queries.recv() => {
                // A loop that does not answer must not keep the others from being stopped.
                tokio::spawn(answer(query, asked.clone()));
            }
        }
    }
    ending.send_replace(true);
    let mut worst = Ended::Following;
    while let Some(ended) = loops.join_next().await {
        worst = worse(worst, ended.unwrap_or(Ended::Incomplete));
    }
    worst
}

fn worse(one: Ended, other: Ended) -> Ended {
    let rank = |ended| match ended {
        Ended::Following => 0,
        Ended::Restored => 1,
        Ended::Left => 2,
        Ended::Incomplete => 3,
    };
    if rank(other) > rank(one) { other } else { one }
}

/// Asks every loop. Where one does not answer, nothing is answered, and the controller does not look well.
async fn answer(query: Query, loops: Vec<QuerySender>) {
    // The other end may have gone.
    match query {
        Query::Status(answer) => {
            if let Some(all) = ask(&loops, Query::Status).await {
                let _ = answer.send(status(all));
            }
        }
        Query::Metrics(answer) => {
            if let Some(all) = ask(&loops, Query::Metrics).await {
                let _ = answer.send(metrics(&all));
            }
        }
        Query::Ready(answer) => {
            if let Some(all) = ask(&loops, Query::Ready).await {
                let _ = answer.send(all.into_iter().all(|ready| ready));
            }
        }
    }
}

async fn ask<T>(loops: &[QuerySender], question: impl Fn(oneshot::Sender<T>) -> Query) -> Option<Vec<T>> {
    let mut answers = Vec::new();
    for queries in loops {
        let (send, answer) = oneshot::channel();
        queries.send(question(send)).await.ok()?;
        answers.push(answer);
    }
    let mut all = Vec::new();
    for answer in answers {
        all.push(answer.await.ok()?);
    }
    Some(all)
}

/// As the status of one loop, with `shards`; sources, actuators and targets say which shard they are of.
fn status(all: Vec<Value>) -> Value {
    let mut shards = Vec::new();
    let lists = ["sources", "actuators", "targets", "would"];
    let mut merged: [Vec<Value>; 4] = Default::default();
    let mut whole = json!({"leads": false, "runningSeconds": 0, "dryRun": false});
    for (number, mut one) in all.into_iter().enumerate() {
        for (list, into) in lists.iter().zip(&mut merged) {
            if let Value::Array(items) = one[*list].take() {
                into.extend(items.into_iter().map(|mut item| {
                    item["shard"] = number.into();
                    item
                }));
            }
        }
        if one["leads"] == true {
            whole["leads"] = true.into();
        }
        for key in ["runningSeconds", "dryRun"] {
            whole[key] = one[key].take();
        }
        shards.push(json!({
            "shard": number,
            "leads": one["leads"],
            "term": one["term"],
            "leader": one["leader"],
            "leadError": one["leadError"],
        }));
    }
    whole["shards"] = shards.into();
    for (list, items) in lists.into_iter().zip(merged) {
        if list != "would" || whole["dryRun"] == true {
            whole[list] = items.into();
        }
    }
    whole
}

/// The pages of all loops as one, with a label that says the shard.
fn metrics(pages: &[String]) -> String {
    struct Family {
        name: String,
        head: Vec<String>,
        lines: Vec<String>,
    }
    let mut families: Vec<Family> = Vec::new();
    for (number, page) in pages.iter().enumerate() {
        let mut at = 0;
        let mut new = false;
        for line in page.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                let name = help.split(' ').next().unwrap_or_default();
                let known = families.iter().position(|family| family.name == name);
                new = known.is_none();
                at = known.unwrap_or(families.len());
                if new {
                    families.push(Family {
                        name: name.to_owned(),
                        head: Vec::new(),
                        lines: Vec::new(),
                    });
                }
            }
            let Some(family) = families.get_mut(at) else {
                continue;
            };
            if line.starts_with('#') {
                if new {
                    family.head.push(line.to_owned());
                }
            } else {
                family.lines.push(labelled(line, number));
            }
        }
    }
    let mut text = String::new();
    for family in families {
        for line in family.head.iter().chain(&family.lines) {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

/// `name{a="b"} 1` and `name 1`, with the label `shard`.
fn labelled(line: &str, shard: usize) -> String {
    let end = line.find(['{', ' ']).unwrap_or(line.len());
    let (name, rest) = line.split_at(end);
    match rest.strip_prefix('{') {
        Some(labels) => format!("{name}{{shard=\"{shard}\",{labels}"),
        None => format!("{name}{{shard=\"{shard}\"}}{rest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_shards_are_one_page() {
        let page = |value: u8, target: &str| {
            format!(
                "# HELP leads 1 while it acts.\n# TYPE leads gauge\nleads {value}\n\
                 # HELP state On or off.\n# TYPE state gauge\nstate{{target=\"{target}\"}} 1\n"
            )
        };
        assert_eq!(
            metrics(&[page(1, "a{ b"), page(0, "c")]),
            "# HELP leads 1 while it acts.\n# TYPE leads gauge\nleads{shard=\"0\"} 1\nleads{shard=\"1\"} 0\n\
             # HELP state On or off.\n# TYPE state gauge\nstate{shard=\"0\",target=\"a{ b\"} 1\n\
             state{shard=\"1\",target=\"c\"} 1\n"
        );
    }

    #[test]
    fn the_status_says_which_shard_has_what() {
        let one = |leads: bool, target: &str| {
            json!({
                "leads": leads, "term": 3, "leader": null, "leadError": null, "runningSeconds": 7, "dryRun": false,
                "sources": [], "actuators": [{"name": "istio"}], "targets": [{"target": target}],
            })
        };
        let all = status(vec![one(false, "a"), one(true, "b")]);
        assert_eq!(all["leads"], true);
        assert_eq!(
            all["shards"][1],
            json!({"shard": 1, "leads": true, "term": 3, "leader": null, "leadError": null})
        );
        assert_eq!(
            all["targets"],
            json!([{"target": "a", "shard": 0}, {"target": "b", "shard": 1}])
        );
        assert_eq!(all["actuators"][1]["shard"], 1);
        assert_eq!(all["would"], Value::Null);
    }

    #[test]
    fn the_worst_end_counts() {
        assert_eq!(worse(Ended::Restored, Ended::Following), Ended::Restored);
        assert_eq!(worse(Ended::Restored, Ended::Incomplete), Ended::Incomplete);
    }
}
