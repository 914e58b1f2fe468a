//! The figures of the RetryGuard paper that have no test beside Table 1.

use retryguard_sim::comparison::Summary;

use super::{compared, of, scenario, within};

fn service<'a>(summary: &'a Summary, name: &str) -> &'a retryguard_sim::engine::ServiceRun {
    let services = &summary.first.services;
    services
        .iter()
        .find(|service| service.name == name)
        .expect("a service of this name")
}

/// The largest number of replicas of all services together.
fn largest_sum(summary: &Summary) -> f64 {
    let moments = summary.first.lines.steps.iter();
    moments.map(|it| it.sizes.iter().sum::<f64>()).fold(0.0, f64::max)
}

#[test]
fn figure_5_retries_triple_reviews_for_nothing() {
    let summaries = compared(&scenario("figure5-bookinfo"));
    let (retries, none) = (of(&summaries, "retries"), of(&summaries, "none"));
    within(retries.mean("largestSize") / none.mean("largestSize"), 2.5, 4.5);
    within(
        retries.mean("rejectionRate") - none.mean("rejectionRate"),
        -0.01,
        0.01,
    );
    // While Reviews grows, Product sends it several times what it was asked for.
    let storm = |summary: &Summary| {
        let steps = &summary.first.lines.steps[31..40];
        steps.iter().map(|it| f64::from(it.attempts[4])).sum::<f64>()
    };
    assert!(storm(retries) > 3.0 * storm(none));
}

#[test]
fn figure_9_least_retries_least_latency_as_many_writes() {
    let summaries = compared(&scenario("figure9-aws"));
    let guard = of(&summaries, "guard");
    let retries = |name: &str| of(&summaries, name).mean("retriesPerCall");
    assert!(retries("legacy") > retries("standard") && retries("standard") > retries("adaptive"));
    // 2.09 to 0.05 in the source.
    assert!(retries("guard") < 0.03 * retries("legacy"));
    for name in ["legacy", "legacy-dynamodb", "standard", "adaptive"] {
        let other = of(&summaries, name);
        assert!(guard.mean("meanMs") < 0.5 * other.mean("meanMs"), "{name}");
        within(guard.mean("successRate") / other.mean("successRate"), 0.98, 1.02);
        // 40 to 90 % of the function's bill are saved.
        assert!(guard.mean("bill") < 0.6 * other.mean("bill"), "{name}");
    }
}

#[test]
fn figure_10_scaling_hardly_depends_on_who_retries() {
    let summaries = compared(&scenario("figure10-scaling"));
    for summary in &summaries {
        within(summary.mean("increases"), 5.0, 7.0);
        within(summary.mean("lastSize"), 418.0, 440.0);
    }
}

#[test]
fn figure_11_the_guard_keeps_reviews_at_its_share() {
    let summaries = compared(&scenario("figure11-reviews"));
    let (retries, guard, none) = (
        of(&summaries, "retries"),
        of(&summaries, "guard"),
        of(&summaries, "none"),
    );
    within(guard.mean("largestSize") / none.mean("largestSize"), 0.9, 1.1);
    assert!(retries.mean("largestSize") > 2.5 * guard.mean("largestSize"));
    within(guard.mean("attempts") / none.mean("attempts"), 1.0, 1.03);
    assert!(retries.mean("attempts") > 1.2 * guard.mean("attempts"));
}

#[test]
fn figure_12_fewer_replicas_at_the_peak_and_in_sum() {
    let summaries = compared(&scenario("figure12-resources"));
    let (retries, guard, none) = (
        of(&summaries, "retries"),
        of(&summaries, "guard"),
        of(&summaries, "none"),
    );
    // Nearly four times at the peak in the source, two to three times in sum.
    within(largest_sum(retries) / largest_sum(guard), 2.5, 4.5);
    within(
        retries.mean("replicaHours") / guard.mean("replicaHours"),
        1.2,
        3.0,
    );
    within(guard.mean("replicaHours") / none.mean("replicaHours"), 0.98, 1.02);
}

#[test]
fn figure_14_each_layer_in_the_storm() {
    let summaries = compared(&scenario("figure14-layers"));
    for name in ["retries", "guard", "none"] {
        let product = service(of(&summaries, name), "product").attempts as f64;
        within(product / 180.0, 370.0, 400.0);
        for version in ["reviews-v1", "reviews-v2", "reviews-v3"] {
            let reviews = service(of(&summaries, name), version);
            let share = reviews.attempts as f64 / product;
            let away = reviews.rejections as f64 / reviews.attempts as f64;
            if name == "retries" {
                within(share, 0.9, 1.6);
                within(away, 0.75, 0.95);
            } else {
                within(share, 0.3, 0.4);
                within(away, 0.5, 0.7);
            }
        }
        // No caller has a reason to retry these.
        within(
            service(of(&summaries, name), "details").attempts as f64 / product,
            1.0,
            1.0,
        );
    }
}
