//! Figures 5 and 6: the drive's commands alone.

use super::Rows;
use crate::reproduce::claim::row;
use crate::reproduce::verdict::Paper;
use Paper::{About, Number, Range};

impl Rows<'_> {
    pub(super) fn commands(&mut self) {
        let rate = row("5", "rate", "4 threads", "throughput fs_write/write", About(1.0)).factor().whole();
        let rate = rate.ours(self.alone("fs_write throughput"));
        let latency = row("5", "latency", "1 thread", "latency fs_write/write", About(1.0)).factor().whole();
        let latency = latency.ours(self.alone("fs_write latency"));
        let what = "throughput remap/read and write";
        let remap = row("6", "rate", "4 threads", what, Number(3.7)).factor().whole();
        let remap = remap.ours(self.alone("remap throughput"));
        // firmware.command_cost was chosen so that this comes out (testbeds/pebblessd.toml).
        let saved = row("6", "latency", "1 thread", "latency less, %", Number(87.0)).calibrated();
        let saved = saved.ours(self.alone("remap latency saved, %"));
        self.all.extend([rate, latency, remap, saved]);
    }

    /// The cleaning thread's pause is an option's default: runs end before it wakes.
    pub(super) fn pause(&mut self) {
        let pause = granary_f2fs::MountOptions::default().gc_sleep.0.as_secs_f64();
        let ran = self.results.find("cleaned", super::CLEANED[0], "f2fs").map(|_| pause);
        let what = "its cleaning thread wakes every, s";
        self.all.push(row("7", "pause", "F2FS", what, Range(30.0, 60.0)).constant().ours(ran));
    }
}
