//! Input from outside, a bounded number of times; GRANARY_FUZZ_RUNS=N for more of each kind.

mod found;
mod smoke;
