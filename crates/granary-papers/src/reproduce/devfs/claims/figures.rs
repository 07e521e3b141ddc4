//! Figures 6, 7 and 10: reads and writes of files.

use super::{
    CAP, DIRECT, In, NAIVE, NOVA, Rows, THREE, TRAP_APPENDS, TRAP_SNAPPY, TRAP_TURNS, TRAP_WRITES, gain,
    per_s,
};
use crate::reproduce::claim::row;
use crate::reproduce::devfs::plan::PROCESSES;
use crate::reproduce::verdict::{Paper, Stat};
use Paper::{About, Above, Below, Number, Range};

/// Naive, NOVA, +cap, +direct, as the paper's bars grow.
const BARS: [In; 4] = [NAIVE, NOVA, CAP, DIRECT];

impl Rows<'_> {
    /// The least step from one bar to the next.
    fn steps(&self, w: &str, bars: &[In]) -> Option<Vec<f64>> {
        bars.windows(2).map(|two| self.faster(w, two[1], two[0])).collect()
    }

    pub(super) fn one_file(&mut self) {
        let cap = self.faster("write-1k", CAP, NAIVE);
        let what = "+cap over naive, gain, up to, %";
        let one = row("6", "cap-naive", "1 KB writes", what, Number(27.0)).gain().ours(cap.map(gain));
        let ours = self.faster("write-1k", CAP, NOVA).map(gain);
        let what = "+cap over NOVA, gain, %";
        let two = row("6", "cap-nova", "1 KB writes", what, Number(12.0)).gain().ours(ours);
        // The paper does not name what it compares with: ours is over NOVA.
        let what = "throughput +direct/unnamed";
        let three = row("6", "direct-1k", "1 KB writes", what, Above(2.0)).factor();
        let three = three.ours(self.faster("write-1k", DIRECT, NOVA));
        let four = row("6", "direct-4k", "4 KB writes", what, Number(1.8)).factor();
        let four = four.ours(self.faster("write-4k", DIRECT, NOVA)).because(&TRAP_WRITES);
        let shrinks = self.faster("write-16k", CAP, NAIVE).zip(cap).map(|(large, small)| large - small);
        let what = "+cap over naive, less its gain at 1 KB";
        let five = row("6", "journal-16k", "16 KB writes", what, Below(0.0)).gain().ours(shrinks);
        let nova = row("6", "nova-naive", "writes", "throughput NOVA/naive, least", Above(1.0)).factor();
        let nova = nova.over(Stat::Least, THREE, self.each_size("write", NOVA, NAIVE));
        let reads = row("6", "read-nova", "reads", "throughput NOVA/+cap, least", Above(1.0)).factor();
        let reads = reads.over(Stat::Least, THREE, self.each_size("read", NOVA, CAP));
        let what = "throughput +direct/best other";
        let best = row("6", "read-direct", "reads of 4 KB", what, Above(1.0)).factor();
        let ours = self.over_each("read-4k", DIRECT, &[NAIVE, NOVA, CAP]);
        let best = best.over(Stat::Least, "over naive, NOVA, +cap", ours).because(&TRAP_TURNS);
        self.all.extend([one, two, three, four, five, nova, reads, best]);
        for (size, on) in [("1k", "1 KB writes"), ("4k", "4 KB writes"), ("16k", "16 KB writes")] {
            let what = "least step of naive < NOVA < +cap < +direct";
            let order = row("6", format!("order-{size}"), on, what, Above(1.0)).factor();
            let ours = self.steps(&format!("write-{size}"), &BARS);
            self.all.push(order.over(Stat::Least, "three steps", ours));
        }
    }

    pub(super) fn many_processes(&mut self) {
        let kb = row("7", "write", "appends", "KB of a write", Number(4.0)).input();
        let kb = kb.ours(self.r.main("append-1", "nova").map(|_| 4.0));
        let ours = self.over_each("append-1", DIRECT, &[NOVA, CAP]);
        let ours = ours.map(|all| all.into_iter().map(gain).collect());
        let what = "+direct over NOVA and +cap, gain, up to, %";
        let one = row("7", "one-process", "1 process", what, Number(39.0)).gain();
        let one = one.over(Stat::Least, "over NOVA, over +cap", ours).because(&TRAP_APPENDS);
        let knee = |what: &str| {
            let rate = |n: &u32| Some(per_s(self.r.find(DIRECT.0, &format!("{what}-{n}"), DIRECT.1)?));
            let rates: Vec<f64> = PROCESSES.iter().map(rate).collect::<Option<_>>()?;
            // The first number of processes after which twice as many bring less than a fifth more.
            let flat = rates.windows(2).position(|pair| pair[1] < 1.2 * pair[0]);
            Some(f64::from(PROCESSES[flat.unwrap_or(PROCESSES.len() - 1)]))
        };
        let what = "processes up to which it scales";
        let own = row("7", "knee-own", "own files", what, Number(4.0)).ours(knee("append"));
        let nova = row("7", "nova-16", "16 processes", "throughput NOVA/+direct", Above(1.0)).factor();
        let nova = nova.ours(self.faster("append-16", NOVA, DIRECT));
        let shared = row("7", "knee-shared", "the same files", what, Number(4.0)).ours(knee("shared"));
        let what = "write throughput direct/kernel";
        let writes = row("7", "write-summary", "summary", what, Range(1.5, 2.3)).factor();
        let writes = writes.over(Stat::Ends, THREE, self.each_size("write", DIRECT, NOVA));
        let what = "read throughput direct/kernel";
        let reads = row("7", "read-summary", "summary", what, Range(1.2, 1.3)).factor();
        let reads = reads.over(Stat::Ends, THREE, self.each_size("read", DIRECT, NOVA));
        self.all.extend([kb, one, own, nova, shared, writes, reads]);
    }

    pub(super) fn snappy(&mut self) {
        let on = "Snappy, 4 KB";
        let w = "snappy-4k";
        let data = row("10", "data", "Snappy", "data, GB", Number(16.0)).input();
        let file = row("10", "file", "Snappy", "KB of a file", Range(1.0, 256.0)).input();
        let nova = row("10", "nova-naive", on, "throughput NOVA/naive", Above(1.0)).factor();
        let nova = nova.ours(self.faster(w, NOVA, NAIVE));
        let what = "+direct over +cap, gain, up to, %";
        let direct = row("10", "direct-cap", on, what, Number(22.0)).gain();
        let direct = direct.ours(self.faster(w, DIRECT, CAP).map(gain)).because(&TRAP_SNAPPY);
        let clock = row("10", "clock", "host", "clock, GHz", Number(2.6)).input();
        let slow = ("+direct, 1400 MHz", "devfs");
        // "Slower" is a loss: its size is compared, as a gain's.
        let half = row("10", "slow", on, "slower at 1.4 GHz, %", Number(66.0)).gain();
        let half = half.ours(self.less(w, slow, DIRECT, per_s));
        let what = "throughput +direct at 1.8 GHz/NOVA";
        let same = row("10", "same", on, what, About(1.0)).factor();
        let same = same.ours(self.faster(w, ("+direct, 1800 MHz", "devfs"), NOVA));
        let over = ["2200", "1800", "1400"].map(|mhz| {
            let (direct, cap) = (format!("+direct, {mhz} MHz"), format!("{mhz} MHz"));
            self.faster(w, (&direct, "devfs"), (&cap, "devfs-cap"))
        });
        let what = "throughput +direct/+cap at every clock";
        let every = row("10", "every-clock", on, what, Above(1.0)).factor();
        let every = every.over(Stat::Least, "2.2, 1.8, 1.4 GHz", over.into_iter().collect());
        let what = "least step of naive < NOVA < +cap < +direct";
        let order = row("10", "order", on, what, Above(1.0)).factor();
        let order = order.over(Stat::Least, "three steps", self.steps(w, &BARS));
        self.all.extend([data, file, nova, direct, clock, half, same, every, order]);
    }
}
