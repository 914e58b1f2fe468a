//! What stands in the report beside the tables: why things come out as they do. Nothing here depends on a run; what does is
//! computed from its figures elsewhere.

use retryguard_lab::experiment::Trouble;

/// The head of a fault's section.
pub(super) const fn title(trouble: Trouble) -> &'static str {
    match trouble {
        Trouble::None => "Nothing broken",
        Trouble::PaymentErrors => "5.1 payment_errors: 20 % of the charges answered with 503",
        Trouble::PaymentSlow => "5.2 payment_slow: three seconds more, every twentieth twenty",
        Trouble::InventoryLock => "5.3 inventory_lock: rows held for two seconds more",
        Trouble::RetryStorm => "5.4 retry_storm: payment_errors, and users that retry at once",
        Trouble::GatewayOverload => "5.5 gateway_overload: 500 users",
    }
}

/// Why.
pub(super) const fn why(trouble: Trouble) -> &'static str {
    match trouble {
        Trouble::None => {
            "What all others are to be read against. The time beyond 120 ms (20 for the reservation, 100 for the charge) is what \
             HTTP, databases and a busy machine cost, multiplied by the inverse of the time scale. Amplification below 1 in F and \
             G is replays that were answered from the store."
        }
        Trouble::PaymentErrors => {
            "The errors do not depend on load, and payments have room: every retry has four chances in five. So retries mend \
             nearly all of them and cost a quarter more requests; they cannot lower success here. A breaker that counts five \
             failures in a minute sees them within two seconds, and turns nearly all orders away for the next half minute, again \
             and again: it answers a service that works four times in five as one that is down. G retries as long as it measures that retries add \
             successes, which they do here, and within a budget while it is not sure yet. The simulator's \
             gateway and orders have a bounded number of workers and its network takes no time; its latencies are lower by what \
             the machine costs."
        }
        Trouble::PaymentSlow => {
            "Slow is not failed: without timeouts all orders are paid, late, and success is that of the calm. Timeouts of eight \
             seconds turn the twentieth that takes twenty seconds into a failed attempt, which a retry usually mends. Five such \
             failures in a minute open the breakers of D, E and F, which then turn away orders that would have been paid after \
             three seconds. A low P95 of D is the speed of refusals, and a short MTTR beside a low success is a good stretch before the \
             breaker opened. Success within the deadline is the published definition, \
             with a deadline of 25 s in C to G and the user's patience of 60 s in A and B."
        }
        Trouble::InventoryLock => {
            "An order waits for its reservation before it is charged, so payments see fewer orders and not slower ones. Calls to \
             payments get slow only where something that both share runs out: 100 connections do not, with 20 users. On SQLite a \
             lock is written into the row; on PostgreSQL it is the row's own lock, and requests that wait for it hold a connection of \
             the database."
        }
        Trouble::RetryStorm => {
            "Three attempts of the user, three of the gateway, three of orders: up to 27 for one order, of which a fifth of a \
             fifth of a fifth is ever needed while errors do not depend on load. What multiplies is visible where a breaker \
             refuses at once: users and gateway retry the refusals. Duplicates are charges that the databases hold beyond the \
             first of an order."
        }
        Trouble::GatewayOverload => {
            "The bottleneck is the machine itself, which runs the users, the services and the databases; no service has a bound of \
             its own here except the 100 connections of orders. Latency is then the number of users divided by what the machine \
             can do. A closed loop cannot pile up more than its 500 users, so nothing runs away and nothing fails where nothing \
             gives up. The limit of 200 in flight sheds the rest at once; these users come back after a tenth of a second. The \
             simulator's world has more capacity than this machine, which is why it predicts less waiting."
        }
    }
}

/// What is not as published.
pub(super) const METHOD: &str = "\
Each run is a system of its own, started empty: a warm-up, the fault from its start to its end, a recovery. The load is the \
published one: 20 users in a closed loop who think for half a second to one and a half, one order in ten sent a second time with \
the same key; in gateway_overload one user, then 500 over a third of the spike. Figures are of the orders that were to be sent \
while the fault lasted; duplicates are of the whole run. An order that is not paid is not a success. Latencies are of all answers, \
from the moment at which an order was to be sent, as described: what passed, divided by the time scale. Amplification is \
requests that arrived at payments (inventory in inventory_lock) for each call that a user made, replays included. MTTR is defined \
as published: from the start of the fault until more than 95 % succeed for ten seconds, those ten included; 0 where it never fell \
below, and the first ten good seconds count even where worse ones follow. `breaker open` is the breaker of orders towards the service in focus, `gateway's` that of the gateway towards orders. \
One run each: a difference of a point or two is chance.

A run whose driver sent an order more than a quarter of a second late did not offer the load that it says. One in which half of \
the orders took longer than 600 ms before anything was broken, or fewer than 98 % of them were paid, ran on a machine that was \
busy with other things. Such a run has no figures, and the table says why.

The simulator ran the same policy files in its own worlds (`evidence/scenarios/recovery-*.yaml`), which were not fitted to these runs. \
It has no duplicate of what the machine costs, and its warm-up lasts a minute.
";
