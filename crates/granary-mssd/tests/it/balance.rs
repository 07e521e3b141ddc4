//! Sums balance on any drive after any workload: nothing that moves is counted twice or not at all.
//!
//! ```text
//!   host pages ──┐                          ┌─ coalesced, trimmed (dropped on purpose)
//!   log, cache ──┴──> write buffer: pages ──┴─ issued ──> programs by cause == programs of the NAND
//!                                                          programs = live pages + stale ones
//! ```

use granary_device::vendor::pebble::{BamReset, FsWrite, Remap};
use granary_device::vendor::transactions::{Commit, Recover};
use granary_device::{Command, Drive, FileEnd, Structure};
use granary_flash::{Cause, Geometry};
use granary_mssd::{DriveConfig, Mode, Mssd, WriteAck};
use granary_sim::rng::Stream;
use granary_units::{ByteAddr, Bytes, Lpa, Nanos, Page, TxId};
use std::collections::BTreeSet;

fn testbed(rng: &mut Stream) -> DriveConfig {
    loop {
        let mode = if rng.chance(0.5) { Mode::Log } else { Mode::Cache };
        let mut c = DriveConfig::tiny(mode);
        c.flash.geometry = Geometry {
            channels: 1 + rng.below(4) as u32,
            ways: 1 + rng.below(3) as u32,
            dies: 1 + rng.below(2) as u32,
            planes: 1 + rng.below(2) as u32,
            blocks_per_plane: 8 + rng.below(30) as u32,
            pages_per_block: 4 + rng.below(28) as u32,
        };
        c.flash.over_provisioning_permille = 70 + rng.below(600) as u32;
        c.firmware.log_region = Bytes::kib(16 << rng.below(4));
        c.firmware.txlog = Bytes(64 << rng.below(6));
        c.firmware.cache = Bytes::kib(16 << rng.below(5));
        c.firmware.write_buffer = Bytes::kib(8 << rng.below(5));
        c.firmware.cores = 1 + rng.below(4) as usize;
        c.firmware.write_ack = [WriteAck::Buffer, WriteAck::Program][rng.below(2) as usize];
        if c.validate().is_ok() && c.pages() > 20 {
            return if rng.chance(0.4) { c.with_bam() } else { c };
        }
    }
}

struct Host<'a> {
    drive: &'a Mssd,
    rng: Stream,
    now: Nanos,
    pages: u64,
    log: bool,
    bam: bool,
    /// Bytes that the host asked for, in and out, block and byte.
    sent: [u64; 4],
    /// Pages that hold something.
    held: BTreeSet<u64>,
    tx: u32,
}

impl Host<'_> {
    fn submit(&mut self, command: Command<'_>) {
        let done = self.drive.submit(self.now, command).expect("carried out");
        self.now = if self.rng.chance(0.3) { done } else { self.now + Nanos(500) };
    }

    fn store(&mut self, tx: TxId) {
        let line = self.rng.below(self.pages * 64 - 8);
        let lines = 1 + self.rng.below(8).min(63 - line % 64);
        let data = vec![self.rng.below(255) as u8 + 1; lines as usize * 64];
        let at = ByteAddr(line * 64);
        self.now = self.drive.store(self.now, at, &data, tx, Structure::Inode).expect("stores");
        self.now = self.drive.flush_lines(self.now, at, data.len()).expect("flushes");
        self.sent[1] += data.len() as u64;
        self.held.insert(line / 64);
    }

    fn one(&mut self) {
        let count = 1 + self.rng.below(8);
        let lpa = self.rng.below(self.pages - count);
        let pages: Vec<Page> = (0..count).map(|i| Page::word(self.now.0 + i)).collect();
        let range = lpa..lpa + count;
        match self.rng.below(100) {
            0..40 => {
                self.submit(Command::Write { lpa: Lpa(lpa), pages: &pages, what: Structure::Data });
                self.sent[0] += count * 4096;
                self.held.extend(range);
            }
            40..55 => {
                let mut out = pages;
                self.submit(Command::Read { lpa: Lpa(lpa), out: &mut out, what: Structure::Data });
                self.sent[2] += count * 4096;
            }
            55..75 => self.store(TxId::NONE),
            75..80 => {
                let mut out = [0; 64];
                let at = ByteAddr(lpa * 4096);
                self.now = self.drive.load(self.now, at, &mut out, Structure::Dentry).expect("loads");
                self.sent[3] += 64;
            }
            80..85 => {
                self.submit(Command::Trim { lpa: Lpa(lpa), count });
                self.held.retain(|l| !range.contains(l));
            }
            85..90 if self.log => {
                self.tx += 1;
                let tx = TxId(self.tx);
                self.store(tx);
                self.now = self.drive.verify(self.now).expect("verifies");
                self.submit(Command::Vendor(&mut Commit { tx }));
            }
            90..95 if self.bam => {
                let write = Command::Vendor(&mut FsWrite {
                    lpa: Lpa(lpa),
                    pages: pages.to_vec(),
                    ino: count,
                    offset: 7,
                    end: FileEnd::WHOLE,
                    what: Structure::Data,
                });
                if self.drive.submit(self.now, write).is_err() {
                    return self.submit(Command::Vendor(&mut BamReset));
                }
                self.sent[0] += count * 4096;
                self.held.extend(range);
            }
            95..98 if self.bam => {
                let dst = self.rng.below(self.pages - count);
                self.submit(Command::Vendor(&mut Remap { src: Lpa(lpa), dst: Lpa(dst), count }));
                let moved: Vec<u64> =
                    range.clone().filter(|l| self.held.contains(l)).map(|l| l - lpa + dst).collect();
                self.held.retain(|l| !range.contains(l) && !(dst..dst + count).contains(l));
                self.held.extend(moved);
            }
            98 => {
                self.drive.power_fail(self.now, &mut self.rng);
                self.now = self.drive.power_on(self.now).expect("powers on");
                if self.log {
                    self.submit(Command::Vendor(&mut Recover));
                }
            }
            _ => self.now += Nanos::from_micros(200),
        }
    }
}

#[test]
fn every_sum_balances_on_any_drive_after_any_workload() {
    let (mut copied, mut stalls) = (0, 0);
    for seed in 0..160 {
        let mut rng = Stream::new(seed, "balance");
        let config = testbed(&mut rng);
        let drive = Mssd::new(&config).expect("valid");
        let log = config.firmware.mode == Mode::Log;
        let mut h = Host {
            drive: &drive,
            now: Nanos::ZERO,
            pages: drive.info().pages,
            log,
            bam: drive.info().answers("FS_WRITE"),
            sent: [0; 4],
            held: BTreeSet::new(),
            tx: 0,
            rng,
        };
        for _ in 0..300 + h.rng.below(2500) {
            h.one();
        }
        drive.settle(h.now).expect("settles");
        drive.check().unwrap_or_else(|bad| panic!("seed {seed}: {}", bad.join("; ")));
        let (c, nand) = (drive.counters(), drive.nand_stats());
        let sum = |a: &[u64]| a.iter().sum::<u64>();

        // The link carried the bytes that the host sent and asked for.
        let link = [&c.link.block_write, &c.link.byte_write, &c.link.block_read, &c.link.byte_read];
        assert_eq!(link.map(|a| sum(a)), h.sent, "seed {seed}: block and byte, in and out");

        // Into the write buffer: the host's pages and those that cleaning made, or what the cache wrote back.
        let (l, b) = (c.log, c.buffer);
        if log {
            assert_eq!(
                b.pages,
                c.commands.write_pages + l.pages_cleaned + c.bam.pages_copied,
                "seed {seed}: {c:?}"
            );
            let gone = l.lines_superseded + l.lines_voided + l.lines_cleaned + l.lines_dropped + l.lines_lost;
            assert_eq!(l.lines, gone, "seed {seed}: the log is empty: {l:?}");
        } else {
            assert_eq!(b.pages, c.cache.write_backs, "seed {seed}: {c:?}");
            assert_eq!(c.cache.dirtied, c.cache.write_backs + c.cache.forgotten, "seed {seed}: {c:?}");
        }
        assert_eq!(b.pages, b.issued + b.coalesced + b.trimmed, "seed {seed}: nothing waits: {b:?}");

        // From the buffer to the NAND: by cause, and as the NAND counts.
        let gc = c.flash.programs(Cause::Gc);
        assert_eq!(c.flash.total_programs(), nand.programs, "seed {seed}");
        assert_eq!(c.flash.total_reads(), nand.reads, "seed {seed}");
        assert_eq!(c.flash.erases, nand.erases, "seed {seed}");
        assert_eq!(nand.programs, b.issued + gc, "seed {seed}: programs beside gc's are the buffer's");

        // Write amplification from two counters that know nothing of each other.
        let of_nand = nand.programs as f64 / b.issued.max(1) as f64;
        let of_ftl = 1.0 + gc as f64 / (c.flash.total_programs() - gc).max(1) as f64;
        assert!((of_nand - of_ftl).abs() < 1e-9, "seed {seed}: WAF {of_nand} and {of_ftl}");

        // The pages that the host wrote and did not trim are stored in the end.
        assert_eq!(drive.mapped_pages(), h.held.len() as u64, "seed {seed}: pages in flash");
        copied += gc;
        stalls += l.stalls + b.stalls;
    }
    assert!(copied > 10_000 && stalls > 1000, "gc copied {copied}, {stalls} stalls");
}
