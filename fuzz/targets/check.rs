//! Whatever can be read is built and solved, reduced and as written, or refused with an error that can be shown. Where both ways give a
//! number, it is one number. A line of two percent signs parts the model from its properties.
#![no_main]

use libfuzzer_sys::fuzz_target;
use retryguard_model::{Constants, Model, Options, Outcome, Properties, check};

fuzz_target!(|text: &str| {
    let Some((model_text, property_text)) = text.split_once("\n%%\n") else {
        return;
    };
    let (Ok(model), Ok(properties)) = (Model::parse(model_text), Properties::parse(property_text)) else {
        return;
    };
    let answers = [true, false].map(|reduce| {
        // Small limits: the fuzzer looks for panics and hangs, and finds neither sooner in a large chain.
        let options = Options { max_states: 500, max_memory: 16 << 20, max_steps: 20_000, reduce, ..Options::default() };
        check(&model, &properties, &Constants::new(), &options)
            .inspect_err(|error| assert!(!error.render("model", model_text, property_text).is_empty()))
    });
    let [Ok(reduced), Ok(written)] = answers else {
        return;
    };
    for (a, b) in reduced.iter().zip(&written) {
        if let (Outcome::Number(x), Outcome::Number(y)) = (a.outcome, b.outcome) {
            let near = (x - y).abs() <= 1e-6 * x.abs().max(y.abs()).max(1e-9);
            assert!(x == y || near, "{}: {x} reduced, {y} as written", a.property);
        }
    }
});
