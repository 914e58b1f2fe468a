//! What a Prometheus server answers, whatever that is.

use std::collections::HashMap;

use serde_json::Value;

/// The most series of one answer that are looked at.
const MOST_SERIES: usize = 1_000_000;

/// One series and its value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Point {
    pub(super) labels: HashMap<String, String>,
    pub(super) value: f64,
}

/// Why there are no points.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AnswerError {
    /// The server says that the question is wrong.
    Refused(String),
    /// It is something else than an answer.
    Nonsense(&'static str),
}

/// The points of an answer. A series whose value is not a number is kept as NaN: only the target that it
/// belongs to has an invalid reading.
pub(super) fn points(text: &str) -> Result<Vec<Point>, AnswerError> {
    let root: Value = serde_json::from_str(text).map_err(|_| AnswerError::Nonsense("no JSON"))?;
    match root["status"].as_str() {
        Some("success") => {}
        Some("error") => {
            return Err(AnswerError::Refused(
                root["error"].as_str().unwrap_or("no reason").to_owned(),
            ));
        }
        _ => return Err(AnswerError::Nonsense("JSON, but not an answer of Prometheus")),
    }
    let result = &root["data"]["result"];
    match root["data"]["resultType"].as_str() {
        Some("scalar") => Ok(vec![Point {
            labels: HashMap::new(),
            value: value(result).ok_or(AnswerError::Nonsense("a scalar without a value"))?,
        }]),
        Some("vector") => {
            let series = result
                .as_array()
                .ok_or(AnswerError::Nonsense("a vector that is not a list"))?;
            if series.len() > MOST_SERIES {
                return Err(AnswerError::Nonsense("more series than the limit of 1000000"));
            }
            series
                .iter()
                .map(|series| point(series).ok_or(AnswerError::Nonsense("a series without labels or value")))
                .collect()
        }
        _ => Err(AnswerError::Nonsense(
            "neither a vector nor a scalar; ask for an instant value",
        )),
    }
}

fn point(series: &Value) -> Option<Point> {
    let labels = series["metric"].as_object()?;
    let labels = labels
        .iter()
        .map(|(label, value)| Some((label.clone(), value.as_str()?.to_owned())))
        .collect::<Option<_>>()?;
    Some(Point {
        labels,
        value: value(&series["value"])?,
    })
}

/// `[1700000000.1, "12.5"]`.
fn value(pair: &Value) -> Option<f64> {
    let [_, value] = pair.as_array()?.as_slice() else {
        return None;
    };
    Some(value.as_str()?.parse().unwrap_or(f64::NAN))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_a_server_says() {
        let text = r#"{"status":"success","data":{"resultType":"vector","result":[
            {"metric":{"a":"b"},"value":[1.5,"12.5"]},{"metric":{},"value":[1,"NaN"]},{"metric":{},"value":[1,"+Inf"]}]}}"#;
        let points = points(text).unwrap();
        assert_eq!(points[0].value, 12.5);
        assert_eq!(points[0].labels["a"], "b");
        assert!(points[1].value.is_nan());
        assert_eq!(points[2].value, f64::INFINITY);
        let error = r#"{"status":"error","errorType":"bad_data","error":"parse error"}"#;
        assert_eq!(
            super::points(error),
            Err(AnswerError::Refused("parse error".to_owned()))
        );
    }

    fn json(depth: u32) -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            prop_oneof!["success", "vector", "scalar", "NaN", "-1", "1e999", "\\PC{0,6}"]
                .prop_map(Value::from),
        ];
        leaf.prop_recursive(depth, 32, 4, |inner| {
            let key = prop_oneof![
                "status",
                "data",
                "resultType",
                "result",
                "metric",
                "value",
                "[a-z]{0,3}"
            ];
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::vec((key, inner), 0..4)
                    .prop_map(|entries| Value::Object(entries.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_answer_brings_it_down(text in "\\PC{0,100}") {
            let _ = points(&text);
        }

        /// An answer of the right outside and any inside.
        #[test]
        fn no_result_of_any_shape_brings_it_down(result in json(4), kind in "vector|scalar|matrix|string") {
            let text = serde_json::json!({"status": "success", "data": {"resultType": kind, "result": result}});
            let _ = points(&text.to_string());
        }
    }
}
