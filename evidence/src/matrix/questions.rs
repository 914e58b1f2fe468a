//! The five research questions, answered by what was measured.

use std::fmt::Write as _;

use retryguard_lab::{
    Configuration::{self, A, B, C, D, E, F, G},
    experiment::Trouble::{self, InventoryLock, PaymentErrors, PaymentSlow, RetryStorm},
};

use super::{
    claimed::{
        Quantity::{self, Amplification, Duplicates, PaymentP95, Success},
        measured,
    },
    results::Results,
};

/// The answers, as Markdown.
pub(super) fn answered(results: &Results) -> String {
    let say = |trouble: Trouble, quantity: Quantity, configuration: Configuration| {
        measured(results, trouble, configuration, quantity)
            .map_or_else(|| "not measured".to_owned(), |value| quantity.shown(value))
    };
    let recovery = |configuration: Configuration| match results.figures(PaymentSlow, configuration) {
        Some(figures) => figures.recovery_s.map_or_else(
            || "not before the run ended".to_owned(),
            |value| format!("{value:.0} s"),
        ),
        None => "not measured".to_owned(),
    };
    let retries = |trouble: Trouble, configuration: Configuration| {
        results.figures(trouble, configuration).map_or_else(
            || "not measured".to_owned(),
            |it| {
                format!(
                    "{:.2}",
                    (it.retries + it.user_retries) as f64 / it.calls.max(1) as f64
                )
            },
        )
    };
    let mut text = String::new();
    let _ = writeln!(
        text,
        "**RQ1. How much does naive retry amplify load on a degraded service, beside no retry?** Requests at payments for each \
         call of a user: {} in A and {} in B under payment_errors, {} in B under retry_storm. Success was {} in A and {} in B. \
         At an error rate *e* that does not depend on load, *k* attempts make 1 + e + … + e^(k−1) requests: 1.24 at 20 % and \
         three attempts; the gateway's own retries add what is left after orders has given up. {}",
        say(PaymentErrors, Amplification, A),
        say(PaymentErrors, Amplification, B),
        say(RetryStorm, Amplification, B),
        say(PaymentErrors, Success, A),
        say(PaymentErrors, Success, B),
        sweep(results)
    );
    let _ = writeln!(
        text,
        "\n**RQ2. By how much does a circuit breaker reduce MTTR?** Under payment_slow: A {}, C {}, D {}, E {}, F {}, G {}. The \
         fault itself lasts {} s, and recovery is counted from its start; so nothing that leaves payments slow can bring more \
         than 95 % of the orders through before that, unless slow answers count as successes, which they do where no caller gives \
         them up. A breaker does not shorten the fault: it turns orders away while it is open, and after the fault it stays \
         open for what is left of its 30 s.",
        recovery(A),
        recovery(C),
        recovery(D),
        recovery(E),
        recovery(F),
        recovery(G),
        results
            .outcome(PaymentSlow, D)
            .map_or(120, |outcome| outcome.phases.fault)
    );
    let _ = writeln!(
        text,
        "\n**RQ3. Do bulkheads isolate failures?** Under inventory_lock the P95 of calls to payments was {} ms in A, {} ms in C, \
         {} ms in E and {} ms in G. With 20 users at most 20 calls are under way, and a client has 100 connections: nothing is \
         exhausted, so there is nothing to isolate, and no bulkhead of 20 places is ever full.",
        say(InventoryLock, PaymentP95, A),
        say(InventoryLock, PaymentP95, C),
        say(InventoryLock, PaymentP95, E),
        say(InventoryLock, PaymentP95, G)
    );
    let _ = writeln!(
        text,
        "\n**RQ4. What is the duplicate write rate in a retry storm, and do keys eliminate it?** Charges beyond the first of an \
         order, for each order that was charged: B {}, C {}, D {}, E {}, F {}, G {}. Counted in the databases. One order in ten \
         is sent twice by its user, so a system that honours no keys charges close to a tenth of all orders twice whatever else \
         it does, where both are paid.",
        say(RetryStorm, Duplicates, B),
        say(RetryStorm, Duplicates, C),
        say(RetryStorm, Duplicates, D),
        say(RetryStorm, Duplicates, E),
        say(RetryStorm, Duplicates, F),
        say(RetryStorm, Duplicates, G)
    );
    let _ = writeln!(
        text,
        "\n**RQ5. How does back-off with jitter reduce amplification?** Retries for each call: {} at once (B) and {} with back-off \
         (C) under payment_errors, {} and {} under retry_storm; amplification {} and {}, {} and {}. Where errors do not depend on \
         load, waiting changes when a retry is sent and not whether it is. What reduces it is a limit: D retries {} times for each \
         call under payment_errors because its breaker is open, G {} times because of its guard and its budget.",
        retries(PaymentErrors, B),
        retries(PaymentErrors, C),
        retries(RetryStorm, B),
        retries(RetryStorm, C),
        say(PaymentErrors, Amplification, B),
        say(PaymentErrors, Amplification, C),
        say(RetryStorm, Amplification, B),
        say(RetryStorm, Amplification, C),
        retries(PaymentErrors, D),
        retries(PaymentErrors, G)
    );
    text
}

fn sweep(results: &Results) -> String {
    let Some(sweep) = &results.sweep else {
        return String::new();
    };
    match sweep.where_it_holds(|workers| sweep.harms(workers)) {
        Some(load) => format!("In the sweep of the capacity retries at once do harm {load}."),
        None => "In the sweep of the capacity retries at once did harm nowhere.".to_owned(),
    }
}
