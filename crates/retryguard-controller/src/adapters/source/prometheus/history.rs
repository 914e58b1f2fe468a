//! What a Prometheus server kept: range queries, for `retryguard calibrate`.

use std::{collections::BTreeMap, path::Path};

use reqwest::Url;
use serde_json::Value;

use crate::adapters::http::{Access, Fetch, excerpt, shown};
use crate::adapters::start_error::StartError;
use crate::reconcile::source::SourceError;

/// One series of a range: its labels, and its values by time in seconds since 1970.
#[derive(Debug, Clone, PartialEq)]
pub struct RangeSeries {
    /// The labels.
    pub labels: BTreeMap<String, String>,
    /// The values, in the order of time. What is not a number is left out.
    pub points: Vec<(f64, f64)>,
}

/// Asks a Prometheus server for ranges.
pub struct History {
    fetch: Fetch,
    url: Url,
}

impl History {
    /// Nothing is asked yet.
    ///
    /// # Errors
    /// Where the address, the token or the certificates cannot be used.
    pub fn new(address: &str, token_file: Option<&Path>, ca_file: Option<&Path>) -> Result<Self, StartError> {
        let fetch = Fetch::new("prometheus", Access { token_file, ca_file })?;
        let url = format!("{}/api/v1/query_range", address.trim_end_matches('/'));
        let url = Url::parse(&url).map_err(|error| StartError::Settings {
            what: "prometheus",
            reason: format!("{address}: {error}; write an address such as http://127.0.0.1:9090"),
        })?;
        Ok(Self { fetch, url })
    }

    /// The series of a query from one moment until another, both in seconds since 1970, with a value for each step.
    ///
    /// # Errors
    /// Where the server cannot be reached, refuses the query, or answers something else.
    pub async fn range(
        &self,
        query: &str,
        (from, until): (f64, f64),
        step: f64,
    ) -> Result<Vec<RangeSeries>, SourceError> {
        let mut url = self.url.clone();
        url.query_pairs_mut()
            .append_pair("query", query)
            .append_pair("start", &format!("{from:.3}"))
            .append_pair("end", &format!("{until:.3}"))
            .append_pair("step", &format!("{step:.3}"));
        let (status, text) = self.fetch.get(url).await?;
        series(&text).map_err(|reason| match reason {
            Ok(refused) => SourceError::Refused {
                address: shown(&self.url),
                reason: excerpt(&refused),
            },
            Err(nonsense) => SourceError::Nonsense {
                address: shown(&self.url),
                reason: format!("{nonsense} (status {status})"),
            },
        })
    }
}

/// The series of an answer; otherwise the server's own reason, or what is wrong with its answer.
fn series(text: &str) -> Result<Vec<RangeSeries>, Result<String, &'static str>> {
    let root: Value = serde_json::from_str(text).map_err(|_| Err("no JSON"))?;
    match root["status"].as_str() {
        Some("success") => {}
        Some("error") => return Err(Ok(root["error"].as_str().unwrap_or("no reason").to_owned())),
        _ => return Err(Err("JSON, but not an answer of Prometheus")),
    }
    let all = root["data"]["result"]
        .as_array()
        .ok_or(Err("no list of series"))?;
    all.iter()
        .map(|one| {
            let labels = one["metric"].as_object()?;
            let labels = labels
                .iter()
                .map(|(label, value)| Some((label.clone(), value.as_str()?.to_owned())))
                .collect::<Option<_>>()?;
            let points = one["values"].as_array()?.iter().filter_map(point).collect();
            Some(RangeSeries { labels, points })
        })
        .collect::<Option<_>>()
        .ok_or(Err("a series without labels or values"))
}

/// `[1700000000.1, "12.5"]`.
fn point(pair: &Value) -> Option<(f64, f64)> {
    let [time, value] = pair.as_array()?.as_slice() else {
        return None;
    };
    let value: f64 = value.as_str()?.parse().ok()?;
    value.is_finite().then_some((time.as_f64()?, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_refusals_and_nonsense_are_told_apart() {
        let text = r#"{"status":"success","data":{"resultType":"matrix","result":[
            {"metric":{"le":"0.1"},"values":[[1,"2"],[2,"NaN"],[3,"4.5"]]}]}}"#;
        let found = series(text).unwrap();
        assert_eq!(found[0].labels["le"], "0.1");
        assert_eq!(found[0].points, [(1.0, 2.0), (3.0, 4.5)]);
        let refused = r#"{"status":"error","error":"parse error"}"#;
        assert_eq!(series(refused), Err(Ok("parse error".to_owned())));
        for nonsense in [
            "",
            "{}",
            "[1]",
            r#"{"status":"success","data":{"result":[{"metric":1}]}}"#,
        ] {
            assert!(matches!(series(nonsense), Err(Err(_))), "{nonsense}");
        }
    }
}
