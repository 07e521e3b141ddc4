//! Times a command that does nothing, between two threads: where both sides sleep at once, and where they
//! spin first. From this the length of the spinning is chosen (`channel::spins`).
//!
//! ```text
//!   roundtrip [COMMANDS]        prints: rounds of spinning, median and 99th percentile of a command in ns;
//!                               and what one round takes
//! ```
#![allow(clippy::disallowed_methods, reason = "it measures the machine")]

use granary_direct::segment::Segment;
use granary_direct::{Answer, Command, Op};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Instant;

fn main() {
    let count = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(20_000u32);
    for spins in [0, 100, 300, 600, 1200, 2400] {
        let (server, file) = Segment::make().expect("a channel");
        let (server, ends) = (Arc::new(server), Arc::new(AtomicBool::new(false)));
        let (its, its_end) = (Arc::clone(&server), Arc::clone(&ends));
        let serving = std::thread::spawn(move || {
            while its.next(&its_end, spins, || ()).is_some() {
                its.reply(&Answer::of(0), false);
            }
        });
        let client = Segment::open(&file).expect("a channel");
        let mut times: Vec<u64> = (0..count)
            .map(|_| {
                let start = Instant::now();
                client.ask(&Command::new(Op::Stat), spins, || true).expect("answers");
                start.elapsed().as_nanos() as u64
            })
            .collect();
        ends.store(true, SeqCst);
        server.end();
        serving.join().expect("ends");
        times.sort_unstable();
        println!("{spins} rounds: {} ns, 99 % {} ns", times[times.len() / 2], times[times.len() * 99 / 100]);
    }
    let start = Instant::now();
    (0..1_000_000).for_each(|_| std::hint::spin_loop());
    println!("one round: {:.1} ns", start.elapsed().as_nanos() as f64 / 1e6);
}
