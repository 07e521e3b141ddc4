#![no_main]
//! `image-spfs+f2fs` of `granary_fuzz::Kind`: its bytes from libFuzzer.

use granary_fuzz::Kind;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| Kind::named("image-spfs+f2fs").expect("a kind").run(bytes));
