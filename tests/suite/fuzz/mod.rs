//! Fuzzing of every way in: bodies, headers, paths, tokens, cursors, addresses, settings and times that are nearly right,
//! and some that are nothing.
//!
//! Each test runs the same cases every time. `FUZZ_FACTOR=100` makes a hundred times as many of them, and `FUZZ_SEED=7`
//! others. A case that fails is shrunk and printed; once mended, it is kept in `regressions`.

mod api;
mod envelope;
mod execute;
mod front;
mod hub;
mod oauth;
mod parsers;
mod regressions;
mod rules;
pub mod shapes;

use std::fmt::Debug;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngSeed, TestRunner};

/// Runs a property over this many cases.
pub fn check<S: Strategy>(cases: u32, strategy: &S, property: impl Fn(S::Value))
where
    S::Value: Debug,
{
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u32>().ok());
    let config = Config {
        cases: cases.saturating_mul(number("FUZZ_FACTOR").unwrap_or(1)),
        rng_seed: RngSeed::Fixed(number("FUZZ_SEED").unwrap_or(1).into()),
        failure_persistence: None,
        max_shrink_iters: 2_000,
        ..Config::default()
    };
    let outcome = TestRunner::new(config).run(strategy, |value| {
        property(value);
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}
