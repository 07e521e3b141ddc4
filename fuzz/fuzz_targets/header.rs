#![no_main]
//! `header` of `granary_fuzz::Kind`: its bytes from libFuzzer.

use granary_fuzz::Kind;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| Kind::named("header").expect("a kind").run(bytes));
