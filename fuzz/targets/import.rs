//! Whatever the file, importing it in any format ends; a policy that an import writes can be read, and is rendered for every system.
#![no_main]

use libfuzzer_sys::fuzz_target;
use retryguard_policy::Policy;
use retryguard_translate::{Format, Target, import, render};

fuzz_target!(|input: (u8, &str)| {
    let (which, text) = input;
    let _ = Format::detect(text);
    let format = Format::ALL[usize::from(which) % Format::ALL.len()];
    match import(text, format) {
        Err(refused) => assert!(!refused.to_string().is_empty()),
        Ok(imported) => {
            let policy = Policy::parse(&imported.policy)
                .unwrap_or_else(|mistakes| panic!("{}\n{mistakes}", imported.policy));
            assert!(Policy::parse(&imported.bounded).is_ok(), "{}", imported.bounded);
            for target in [Target::Envoy, Target::Istio, Target::GatewayApi, Target::Grpc] {
                assert!(!render(&policy, target).text.is_empty());
            }
        }
    }
});
