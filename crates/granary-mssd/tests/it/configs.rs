//! Whole drives of random configurations in their steady state: twelve, or `GRANARY_CONFIGS`. Thousands, on
//! all processors: `cargo xtask soak --kind drive-configs`.

mod steady;

#[test]
fn random_drives_work_in_their_steady_state() {
    let count = std::env::var("GRANARY_CONFIGS").ok().and_then(|n| n.parse().ok()).unwrap_or(12);
    let mut seen = steady::Seen::default();
    for seed in 0..count {
        println!("seed {seed}");
        seen.add(&steady::steady(seed));
    }
    println!("{seen}");
    assert!(seen.erases > 0 && seen.cleanings > 0 && seen.programs > 0, "gc and cleaning ran: {seen}");
}
