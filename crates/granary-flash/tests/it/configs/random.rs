//! A random flash array and FTL for each seed, and a load that brings it to its steady state. Used by `cargo
//! xtask soak` too.

use granary_flash::{Cause, ErrorConfig, FtlConfig, GcPolicy, Geometry, NandTiming, PlaneMode, Striping};
use granary_sim::rng::Stream;
use granary_units::{Bytes, Nanos};

/// The drive of a seed: small, so that gc begins soon, and with every knob turned.
pub fn flash(seed: u64) -> FtlConfig {
    let mut rng = Stream::new(seed, "drive configuration");
    loop {
        let mut among = |low: u64, high: u64| (low + rng.below(high - low + 1)) as u32;
        let geometry = Geometry {
            channels: among(1, 4),
            ways: among(1, 3),
            dies: among(1, 2),
            planes: among(1, 3),
            blocks_per_plane: among(8, 64),
            pages_per_block: among(1, 48),
        };
        let timing = NandTiming {
            read: Nanos(among(3_000, 90_000) as u64),
            program: Nanos(among(20_000, 900_000) as u64),
            erase: Nanos(among(500_000, 5_000_000) as u64),
            channel_bandwidth: Bytes(among(50_000_000, 2_000_000_000) as u64),
        };
        let mut c = FtlConfig::new(geometry, timing);
        c.over_provisioning_permille = [0, 70, 150, 280, 1000][among(0, 4) as usize];
        c.gc_start = among(2, 5);
        c.gc_stop = c.gc_start + among(1, 4);
        c.wear_gap = [0, 2, 5, 50][among(0, 3) as usize];
        let striping = among(0, 23) as usize;
        c.striping = Striping::all().nth(striping).expect("one of 24");
        c.log_stream = among(0, 1) == 1;
        c.gc_policy = [GcPolicy::Greedy, GcPolicy::CostBenefit][among(0, 1) as usize];
        c.idle_gc = Nanos([0, 1_000_000][among(0, 1) as usize]);
        c.idle_gc_stop = [0, c.gc_stop + 3][among(0, 1) as usize];
        c.plane_mode =
            [PlaneMode::Independent, PlaneMode::MultiPlane, PlaneMode::OneAtATime][among(0, 2) as usize];
        if c.plane_mode != PlaneMode::MultiPlane {
            (c.cache_read, c.cache_program) = (among(0, 1) == 1, among(0, 1) == 1);
        }
        if among(0, 3) == 0 {
            // Rare enough that most drives have spare blocks for them.
            let ppb = |rare: u32| [0, rare][rare as usize % 2];
            c.errors = ErrorConfig {
                program_ppb: ppb(among(1, 20_000)),
                erase_ppb: ppb(among(1, 200_000)),
                read_ppb: among(0, 1_000_000),
                endurance: 0,
                seed,
            };
        }
        c.update_stream = among(0, 3) == 0;
        if c.validate().is_ok() {
            return c;
        }
    }
}

/// Writes: everything once in order, then hot and cold pages, sequential runs and idle time in between.
pub struct Load {
    rng: Stream,
    pages: u64,
    hot: u64,
    filled: u64,
    run: (u64, u64),
    now: u64,
    word: u64,
}

impl Load {
    /// The load of a seed for a drive of `pages` pages.
    pub fn new(seed: u64, pages: u64) -> Load {
        let mut rng = Stream::new(seed, "drive load");
        let hot = 1 + rng.below(pages);
        Load { rng, pages, hot, filled: 0, run: (0, 0), now: 0, word: 0 }
    }

    /// The instant of the last write.
    pub fn now(&self) -> Nanos {
        Nanos(self.now)
    }

    /// The next write: its instant, page, content and cause.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> (Nanos, u64, u64, Cause) {
        self.word += 1;
        self.now += self.rng.below(20_000);
        if self.rng.chance(0.001) {
            self.now += 50_000_000;
        }
        let lpa = if self.filled < self.pages {
            self.filled += 1;
            self.filled - 1
        } else if self.run.1 > 0 {
            self.run = ((self.run.0 + 1) % self.pages, self.run.1 - 1);
            self.run.0
        } else {
            let within = if self.rng.chance(0.8) { self.hot } else { self.pages };
            let first = self.rng.below(within);
            if self.rng.chance(0.05) {
                self.run = (first, self.rng.below(40));
            }
            first
        };
        let cause = if self.rng.chance(0.3) { Cause::LogCleaning } else { Cause::Host };
        (Nanos(self.now), lpa, self.word, cause)
    }
}
