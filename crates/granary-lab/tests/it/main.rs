//! Every file system from outside: what it offers, and images whose devices are worn.

mod offered;
mod worn;
