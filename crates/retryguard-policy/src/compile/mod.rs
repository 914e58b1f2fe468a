//! Written to compiled.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use retryguard_core::{Criticality, breaker, budget, guard, shed, target};

use crate::{
    classifier::Classifier,
    diagnostics::Mistakes,
    policy::{Idempotency, Policy, Service},
    written::Document,
};

pub(crate) fn policy(_written: &Document, _mistakes: &mut Mistakes) -> Policy {
    Policy {
        defaults: Arc::new(Service {
            name: String::new(),
            target: Arc::new(target::Settings {
                breaker: Some(breaker::Settings::default()),
                budget: Some(budget::Settings::default()),
                guard: Some(guard::Settings::default()),
                ..target::Settings::default()
            }),
            classifier: Classifier::default(),
            idempotency: Idempotency {
                methods: ["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"]
                    .map(String::from)
                    .to_vec(),
                key_header: "idempotency-key".to_owned(),
                add_keys: false,
                retry_non_idempotent: false,
            },
            replay_limit: 64 * 1024,
            criticality: Criticality::Critical,
            period: None,
            server: Some(shed::Settings::default()),
            server_deadline: None,
            calls: Vec::new(),
        }),
        services: BTreeMap::new(),
        gateway_retries: false,
        remote_period: Duration::from_secs(60),
        digest: String::new(),
    }
}
