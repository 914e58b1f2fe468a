//! A comparison in a sentence.

use retryguard_sim::comparison::{Summary, is_significant};

/// Shares closer than this are the same to a reader.
const SAME: f64 = 0.01;

/// The policy that no other may beat: it knows what is to come, so it is left out.
const ORACLE: &str = "oracle";

/// Which policy serves most over many worlds, and how far `ours` is behind where it is not that one. A policy is its name, its
/// mean goodput as a share of the oracle's, and its mean requests for each success.
pub(crate) fn ranking(policies: &[(&str, f64, f64)], ours: &str) -> String {
    let mut all: Vec<&(&str, f64, f64)> = policies.iter().filter(|it| it.0 != ORACLE).collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    let Some((best, most, requests)) = all.first() else {
        return String::new();
    };
    let mut out = format!(
        "On average `{best}` serves {:.1} % of what the oracle serves, with {requests:.2} times its requests for each success",
        100.0 * most
    );
    if let Some((next, goodput, requests)) = all.get(1) {
        out += &format!(
            "; next is `{next}` with {:.1} % and {requests:.2}",
            100.0 * goodput
        );
    }
    if let Some((name, goodput, requests)) = all.iter().skip(2).find(|it| it.0 == ours) {
        out += &format!("; `{name}` has {:.1} % and {requests:.2}", 100.0 * goodput);
    }
    out + "."
}

/// Who served most, with how many requests. A difference that several replications do not show clearly is called so.
#[must_use]
pub fn sentence(summaries: &[Summary]) -> String {
    let success = |summary: &Summary| summary.mean("successRate");
    let attempts = |summary: &Summary| summary.mean("attempts").max(1.0);
    let Some(most) = summaries.iter().map(success).reduce(f64::max) else {
        return String::new();
    };
    // Of those that served as many, the one that sent least.
    let leaders: Vec<&Summary> = summaries.iter().filter(|it| success(it) > most - SAME).collect();
    let Some(best) = leaders.iter().min_by(|a, b| attempts(a).total_cmp(&attempts(b))) else {
        return String::new();
    };
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let mut out = format!("`{}` served {} of the calls", best.name, percent(success(best)));
    let others: Vec<&Summary> = summaries.iter().filter(|it| it.name != best.name).collect();
    let Some(second) = others.iter().max_by(|a, b| success(a).total_cmp(&success(b))) else {
        return out + ".";
    };
    let fewer = 1.0 - attempts(best) / attempts(second);
    if success(second) > most - SAME {
        out += &format!(", as many as `{}`", second.name);
        if fewer > SAME {
            out += &format!(", with {} fewer requests", percent(fewer));
        }
    } else {
        let points = format!("{:.0}", (success(best) - success(second)) * 100.0);
        let unit = if points == "1" { "point" } else { "points" };
        out += &format!(", {points} {unit} more than `{}`", second.name);
        let difference = best.difference(second, "successRate");
        if difference.is_some_and(|it| it.half_width.is_some() && !is_significant(&it)) {
            out += " (not significant)";
        }
        if fewer > SAME {
            out += &format!(" and with {} fewer requests", percent(fewer));
        } else if fewer < -SAME {
            out += &format!(", for {} more requests", percent(-fewer));
        }
    }
    if let Some(worst) = others.iter().min_by(|a, b| success(a).total_cmp(&success(b)))
        && worst.name != second.name
    {
        out += &format!("; `{}` served {}", worst.name, percent(success(worst)));
    }
    out + "."
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ranking_names_the_best_the_next_and_ours() {
        let all = [
            ("none", 0.7, 1.5),
            ("ours", 0.8, 1.25),
            ("oracle", 1.0, 1.0),
            ("peer", 0.9, 2.0),
        ];
        assert_eq!(
            ranking(&all, "none"),
            "On average `peer` serves 90.0 % of what the oracle serves, with 2.00 times its requests for each success; next is `ours` \
             with 80.0 % and 1.25; `none` has 70.0 % and 1.50."
        );
        assert!(ranking(&all, "ours").ends_with("; next is `ours` with 80.0 % and 1.25."));
        assert_eq!(ranking(&[("oracle", 1.0, 1.0)], "ours"), "");
    }
}
