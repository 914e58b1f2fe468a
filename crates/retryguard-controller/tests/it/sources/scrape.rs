use retryguard_controller::domain::counts::Counts;
use retryguard_controller::reconcile::source::SourceError;

use super::{serve, source};

const CONFIG: &str = "
sources: {scrape: {addresses: ['{address}/stats/prometheus']}}
actuators: {policy-server: {folder: .}}
targets: {reviews: {scrape: {envoy: {}}}}
";

fn page(total: u64, retry: u64, rejected: u64, overflow: u64) -> String {
    format!(
        "# TYPE envoy_cluster_upstream_rq_total counter
envoy_cluster_upstream_rq_total{{envoy_cluster_name=\"reviews\"}} {total}
envoy_cluster_upstream_rq_total{{envoy_cluster_name=\"other\"}} 99999
envoy_cluster_upstream_rq_retry{{envoy_cluster_name=\"reviews\"}} {retry}
envoy_cluster_upstream_rq_retry_overflow{{envoy_cluster_name=\"reviews\"}} {overflow}
envoy_cluster_upstream_rq{{envoy_response_code=\"503\",envoy_cluster_name=\"reviews\"}} {rejected}
envoy_cluster_upstream_rq{{envoy_response_code=\"200\",envoy_cluster_name=\"reviews\"}} 5
"
    )
}

async fn samples(pages: &[String]) -> Vec<Option<Counts>> {
    let (server, address) = serve().await;
    let mut source = source(CONFIG, &address).await;
    let mut samples = Vec::new();
    for page in pages {
        server.lock().unwrap().text.clone_from(page);
        let readings = source.read().await.unwrap();
        samples.push(readings.first().map(|reading| reading.counts));
    }
    samples
}

fn counts(counts: Option<Counts>) -> (u64, u64, u64) {
    let counts = counts.unwrap();
    (counts.calls, counts.rejected.unwrap(), counts.retries.unwrap())
}

#[tokio::test]
async fn what_is_new_since_the_last_page_is_counted() {
    let seen = samples(&[page(1_000_000, 0, 7, 0), page(1_000_600, 500, 307, 0)]).await;
    assert_eq!(seen[0], None, "a counter may have run for weeks");
    assert_eq!(counts(seen[1]), (100, 50, 500));
}

#[tokio::test]
async fn a_proxy_that_restarts_counts_from_nothing() {
    let seen = samples(&[page(500, 0, 100, 0), page(40, 0, 10, 0), page(80, 0, 10, 0)]).await;
    assert_eq!(counts(seen[1]), (40, 10, 0));
    assert_eq!(counts(seen[2]), (40, 0, 0));
}

/// Observed-back retries overflow in the proxy's own words. They must not be seen, or the guard would see itself.
#[tokio::test]
async fn held_back_retries_are_no_rejections() {
    let seen = samples(&[page(0, 0, 0, 0), page(100, 0, 5, 5), page(200, 0, 10, 100_000)]).await;
    assert_eq!(counts(seen[1]), (100, 5, 0));
    assert_eq!(counts(seen[2]), (100, 5, 0));
}

/// A page that counts more rejections than attempts was read as a total overload.
#[tokio::test]
async fn more_rejections_than_attempts_are_implausible() {
    let seen = samples(&[page(0, 0, 0, 0), page(100, 0, 150, 0), page(200, 0, 180, 0)]).await;
    assert!(!seen[1].unwrap().plausible());
    assert_eq!(counts(seen[2]), (100, 30, 0));
}

#[tokio::test]
async fn successes_of_retries_are_counted_where_the_proxy_counts_them() {
    let with = |number: u64| {
        let succeeded = "envoy_cluster_upstream_rq_retry_success{envoy_cluster_name=\"reviews\"}";
        format!("{}{succeeded} {number}\n", page(150, 50, 0, 0))
    };
    let seen = samples(&[page(0, 0, 0, 0), with(40)]).await;
    assert_eq!(seen[1].unwrap().retries_succeeded, Some(40));
    let seen = samples(&[page(0, 0, 0, 0), page(150, 50, 0, 0)]).await;
    assert_eq!(seen[1].unwrap().retries_succeeded, None);
}

/// The first 503 makes a series that was not there before: it counts from zero.
#[tokio::test]
async fn a_series_that_appears_counts_whole() {
    let without: String = page(100, 0, 0, 0)
        .lines()
        .filter(|line| !line.contains("503"))
        .map(|line| format!("{line}\n"))
        .collect();
    let seen = samples(&[without, page(200, 0, 80, 0)]).await;
    assert_eq!(counts(seen[1]), (100, 80, 0));
}

#[tokio::test]
async fn numbers_that_cannot_be_true_leave_the_target_out() {
    for lie in ["NaN", "+Inf", "-5"] {
        let lying = page(200, 0, 0, 0).replace("} 200\n", &format!("}} {lie}\n"));
        let seen = samples(&[page(100, 0, 0, 0), lying]).await;
        assert_eq!(seen[1], None, "{lie}");
    }
}

/// After such a page all that a proxy had counted in weeks was taken for one interval.
#[tokio::test]
async fn a_page_without_a_number_does_not_make_history_new() {
    let old = page(1_000_000, 0, 900_000, 0);
    let odd = |number: &str| {
        let odd = old.replace("} 1000000\n", &format!("}} {number}\n"));
        odd.replace("} 900000\n", &format!("}} {number}\n"))
    };
    for between in [
        odd("NaN"),
        odd("+Inf"),
        odd("-5"),
        String::new(),
        "# nothing\n".to_owned(),
    ] {
        let next = page(1_000_100, 0, 900_010, 0);
        let seen = samples(&[old.clone(), between.clone(), next]).await;
        assert_eq!(seen[1], None, "{between}");
        assert_eq!(counts(seen[2]), (100, 10, 0), "{between}");
    }
    // The same where it is the first page: what comes next may have run for weeks.
    for first in [odd("NaN"), odd("-5"), String::new()] {
        let seen = samples(&[first.clone(), old.clone(), page(1_000_100, 0, 900_010, 0)]).await;
        assert_eq!(seen[..2], [None, None], "{first}");
        assert_eq!(counts(seen[2]), (100, 10, 0), "{first}");
    }
}

#[tokio::test]
async fn a_series_that_stands_twice_counts_once() {
    let twice = |total| format!("{0}{0}", page(total, 0, total / 10, 0));
    let seen = samples(&[twice(100), twice(200)]).await;
    assert_eq!(counts(seen[1]), (100, 10, 0));
}

#[tokio::test]
async fn a_page_that_is_something_else_is_an_error() {
    let (server, address) = serve().await;
    let mut source = source(CONFIG, &address).await;
    server.lock().unwrap().text = "<html>hello</html>".to_owned();
    let error = source.read().await.unwrap_err();
    assert!(matches!(error, SourceError::Nonsense { .. }), "{error}");
    assert!(error.to_string().contains("line 1"), "{error}");
    server.lock().unwrap().status = 404;
    assert!(matches!(
        source.read().await.unwrap_err(),
        SourceError::Refused { .. }
    ));
}

#[tokio::test]
async fn a_page_without_end_is_cut_off() {
    let (server, address) = serve().await;
    let mut source = source(CONFIG, &address).await;
    server.lock().unwrap().text = "#".repeat(32 * 1024 * 1024 + 1);
    let error = source.read().await.unwrap_err().to_string();
    assert!(error.contains("more than 33554432 bytes"), "{error}");
    server.lock().unwrap().text.pop();
    source.read().await.unwrap();
}

#[tokio::test]
async fn an_address_without_a_server_is_an_error_that_names_it() {
    let mut source = source(
        CONFIG,
        &format!("http://127.0.0.1:{}", retryguard_parts::free_port()),
    )
    .await;
    let error = source.read().await.unwrap_err();
    assert!(matches!(error, SourceError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains("/stats/prometheus"), "{error}");
}
