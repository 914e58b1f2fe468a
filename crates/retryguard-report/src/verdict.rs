//! A comparison in a sentence.

use retryguard_sim::comparison::{Summary, is_significant};

/// Shares closer than this are the same to a reader.
const SAME: f64 = 0.01;

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
    let mut out = format!("{} served {} of the calls", best.name, percent(success(best)));
    let others: Vec<&Summary> = summaries.iter().filter(|it| it.name != best.name).collect();
    let Some(second) = others.iter().max_by(|a, b| success(a).total_cmp(&success(b))) else {
        return out + ".";
    };
    let fewer = 1.0 - attempts(best) / attempts(second);
    if success(second) > most - SAME {
        out += &format!(", as many as {}", second.name);
        if fewer > SAME {
            out += &format!(", with {} fewer requests", percent(fewer));
        }
    } else {
        out += &format!(
            ", {:.0} points more than {}",
            (success(best) - success(second)) * 100.0,
            second.name
        );
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
        out += &format!("; {} served {}", worst.name, percent(success(worst)));
    }
    out + "."
}
