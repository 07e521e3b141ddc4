//! Figures 1 to 5: what a file system on an SSD leaves of it; the platform.

use super::{Rows, durable, fsync, written_per_s};
use crate::reproduce::claim::row;
use crate::reproduce::orchfs::SPLITS;
use crate::reproduce::orchfs::plan::{HOST_FREE, ON_SSD, PAGES_FREE, PARTS, PCIE5};
use crate::reproduce::study::MAIN;
use crate::reproduce::verdict::{Paper, Stat};
use crate::reproduce::why::{Experiment, Must};
use Paper::{Above, Below, Number, Range, Silent};
use granary_lab::record::Record;

/// `page` is what a read of a cached page takes; a page that is absent is allocated, charged, inserted.
const PAGE_ABSENT: Experiment = Experiment {
    says: "what a page of the page cache costs that was absent decides: 2.2 us instead of a read's 0.3",
    figures: &["1"],
    workloads: &["nosync-1m"],
    file_systems: &["ext4", "f2fs"],
    set: &["host.costs.page=2200"],
    must: Must::Close(0.7),
};
static PAGE: Experiment = PAGE_ABSENT;

/// The least that independent sources give for a page that is there (NVLog's hot writes).
static PAGE_THERE: Experiment = Experiment {
    says: "what a page of the page cache costs that is there decides a part: 1.45 us instead of a read's 0.3",
    figures: &["2"],
    workloads: &["fsync-1m"],
    set: &["host.costs.page=1450"],
    must: Must::Close(0.2),
    ..PAGE_ABSENT
};

/// Sizes of figure 4, each on both file systems.
const BOTH: &str = "4 KB to 1 MB, ext4 and F2FS";

impl Rows<'_> {
    pub(super) fn background(&mut self) {
        self.all.push(row("1", "sata", "SATA SSD", "bandwidth, MB/s", Number(500.0)).input());
        self.all.push(row("1", "pcie5", "PCIe 5.0 SSD", "bandwidth, GB/s", Number(10.0)).input());
        let of = |setting: &str, raw: &str| -> Option<Vec<f64>> {
            let raw = self.alone(raw)?;
            let of = |fs: &&str| Some(self.r.find(setting, "nosync-1m", fs).and_then(written_per_s)? / raw);
            ON_SSD.iter().map(of).collect()
        };
        let on = "1 MB, no sync";
        for (name, what, paper, ours) in [
            ("pcie4", "throughput file systems/raw, PCIe 4.0", 1.0 / 3.0, of(MAIN, "raw 1 MiB, B/s")),
            (
                "pcie5-raw",
                "throughput file systems/raw, PCIe 5.0",
                0.25,
                of(PCIE5, "raw 1 MiB of PCIe 5.0, B/s"),
            ),
        ] {
            let best = row("1", name, on, what, Number(paper)).factor();
            self.all.push(best.over(Stat::Most, "ext4, F2FS", ours).because(&PAGE));
        }
        let reads = row("1", "reads", on, "bottleneck: small SSD reads", Above(0.0));
        self.all.push(reads.needs("the time of a write that its reads take"));
        let raw = self.alone("raw 1 MiB, B/s").map(|per_s| f64::from(1 << 20) / per_s * 1e9);
        let times = |fs: &str| Some(self.r.main("fsync-1m", fs).and_then(durable)? / raw?);
        let on = "1 MB, fsync after each";
        let what = "latency file systems/raw";
        let others = row("2", "file-systems", on, what, Range(2.64, 9.62)).factor();
        let all = ON_SSD.iter().map(|fs| times(fs)).collect();
        self.all.push(others.over(Stat::Ends, "ext4, F2FS", all).because(&PAGE_THERE));
        let orchfs = row("2", "orchfs", on, "latency OrchFS/raw", Silent).factor();
        self.all.push(orchfs.ours(times("orchfs")));
        self.drive();
    }

    /// Figures 3 and 5: the drive alone.
    fn drive(&mut self) {
        let what = "latency unaligned/aligned, least";
        let least = row("3", "unaligned-1m", "direct writes of 1 MB", what, Number(1.85)).factor().whole();
        self.all.push(least.ours(self.alone("unaligned 1 MiB")));
        // firmware.command_cost was chosen so that this comes out (testbeds/orchfs.toml).
        let what = "latency unaligned/aligned, most";
        let most = row("3", "unaligned-16k", "direct writes of 16 KB", what, Number(10.71)).calibrated();
        self.all.push(most.ours(self.alone("unaligned 16 KiB")));
        for (name, on, paper, at) in
            [("writes", "writes", Range(1.02, 1.56), 0), ("reads", "reads", Range(1.06, 1.65), 1)]
        {
            let ours = SPLITS.iter().map(|split| self.alone(split.names[at])).collect();
            let split = row("5", name, on, "throughput split/single", paper).factor().whole();
            self.all.push(split.over(Stat::Ends, "128, 256, 512 KB, 1 MB in pieces of 32 KB", ours));
        }
        for (name, what, paper, value) in
            [("host", "KB at the host", 20.0, "host, KB"), ("ssd", "KB in the SSD", 32.0, "SSD, KB")]
        {
            let size = row("3", name, "16 KB unaligned", what, Number(paper)).arithmetic();
            self.all.push(size.ours(self.alone(value)));
        }
    }

    /// By how many percent of a write with its fsync `of` takes less in this setting.
    fn part(&self, how: &[&str], setting: &str, of: fn(&Record) -> Option<f64>) -> Option<Vec<f64>> {
        let mut all = Vec::new();
        for name in how.iter().flat_map(|how| PARTS.map(|size| format!("{how}-{size}"))) {
            for fs in ON_SSD {
                let (whole, free) = (self.r.main(&name, fs)?, self.r.find(setting, &name, fs)?);
                all.push(100.0 * (of(whole)? - of(free)?) / durable(whole)?);
            }
        }
        Some(all)
    }

    /// Figure 4: what a write and its fsync take less with a part of them free.
    pub(super) fn shares(&mut self) {
        let what = "page cache, share of a write, %";
        let pages = row("4", "page-cache", "unaligned, buffered", what, Range(4.0, 39.2));
        self.all.push(pages.over(Stat::Ends, BOTH, self.part(&["fsync"], PAGES_FREE, durable)));
        let what = "fsync without I/O, share of a write, %";
        let syncs = row("4", "fsync", "buffered and direct", what, Range(5.5, 27.9));
        self.all.push(syncs.over(Stat::Ends, BOTH, self.part(&["fsync", "direct"], HOST_FREE, fsync)));
    }

    pub(super) fn setup(&mut self) {
        for (name, what, paper) in [
            ("ssd-page", "KB of an SSD page", 16.0),
            ("ssd-block", "KB of an SSD block", 32.0),
            ("nvm-page", "KB of an NVM page", 4.0),
            ("upage", "B of an Upage's entry", 64.0),
        ] {
            let ours = self.alone(what);
            self.all.push(row("setup", name, "layout", what, Number(paper)).constant().ours(ours));
        }
        // OrchFS calls all that it writes to the SSD data: no run can give another number.
        let metadata =
            row("setup", "metadata", "layout", "metadata on the SSD, bytes", Below(1.0)).constant();
        self.all.push(metadata.ours(self.ssd_metadata()));
        let descents = row("setup", "descents", "HRtree", "traversals of a request", Number(1.0));
        self.all.push(descents.needs("a count of descents"));
        let cores = self.alone("processors").map(|all| all / 2.0);
        for (name, what, paper, ours) in [
            ("kernel", "kernel 5.18.18", 5.18, None),
            ("packages", "processors' packages", 2.0, None),
            ("cores", "cores of each", 28.0, cores),
            ("clock", "clock, GHz", 2.6, None),
            ("dram", "DRAM, GB", 256.0, None),
            ("ssd", "SSD, TB", 3.84, self.alone("SSD, TB")),
            ("ssd-reads", "SSD reads, GB/s", 6.8, self.alone("SSD reads, GB/s")),
            ("ssd-writes", "SSD writes, GB/s", 4.2, self.alone("SSD writes, GB/s")),
            ("nvm", "NVM, GB", 128.0, self.alone("NVM, GB")),
            ("nvm-reads", "NVM reads, GB/s", 6.6, self.alone("NVM reads, GB/s")),
            ("nvm-writes", "NVM writes, GB/s", 2.3, self.alone("NVM writes, GB/s")),
        ] {
            self.all.push(row("setup", name, "platform", what, Number(paper)).input().ours(ours));
        }
        let boundary = row("setup", "boundary", "PHFS", "KB of the boundary", Number(32.0)).constant();
        self.all.push(boundary.ours(self.alone("KB of an SSD block")));
    }

    /// Bytes of metadata that OrchFS wrote to the SSD in all runs.
    fn ssd_metadata(&self) -> Option<f64> {
        let ours: Vec<f64> = self
            .r
            .runs
            .iter()
            .filter(|(_, r)| r.fs == "orchfs")
            .filter_map(|(_, r)| {
                let ssd = r.devices.get("ssd")?;
                let all: u64 = ssd.host.block.write_bytes.values().sum();
                Some((all - ssd.host.block.write_bytes.get("data").copied().unwrap_or(0)) as f64)
            })
            .collect();
        (!ours.is_empty()).then(|| ours.iter().sum())
    }
}
