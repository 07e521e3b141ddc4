//! Input from outside, a bounded number of times; GRANARY_FUZZ_RUNS=N for more of each kind.

mod found;
mod smoke;
mod targets;

// The targets of cargo-fuzz find `fuzz_target!` here by the path that they use.
extern crate self as libfuzzer_sys;

/// Makes a function where libFuzzer's makes an entry. It stands below the modules: these take it by its path
/// alone.
#[macro_export]
macro_rules! fuzz_target {
    (|$bytes:ident: &[u8]| $run:expr) => {
        pub fn run($bytes: &[u8]) {
            $run
        }
    };
}
