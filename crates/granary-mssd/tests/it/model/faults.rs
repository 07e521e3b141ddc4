//! Random schedules on a drive whose flash fails and whose power goes away: acknowledged changes are never
//! lost.
//!
//! A seed gives the drive (mode, over-provisioning, blocks, sizes of log, cache and write buffer, when block
//! writes are acknowledged), the rates at which programs, erases and reads fail, and the host's operations.
//! Reads that fail do so for a while: a page that is lost for good is reported as such by any drive, and no
//! model can say more of it.

use super::rig::{Model, Op, PAGES};
use granary_flash::{FaultRates, Faults};
use granary_mssd::{BamConfig, DriveConfig, Mode, WriteAck};
use granary_sim::rng::Stream;
use granary_units::Bytes;

/// Counts of the events that were exercised.
#[derive(Clone, Copy, Debug, Default)]
pub struct Exercised {
    /// Power failures; of these during RECOVER, and during power-up.
    pub crashes: u32,
    /// During RECOVER.
    pub in_recover: u32,
    /// During power-up.
    pub in_power_up: u32,
    /// Blocks that went out of service.
    pub lost_blocks: u64,
    /// Reads that found their page unreadable.
    pub unreadable: u64,
    /// Drives that reached their end of life.
    pub dead: u32,
    /// Pages moved by gc.
    pub gc: u64,
    /// Log cleanings.
    pub cleanings: u64,
    /// Blocks of files that BAM noted, and pages that REMAP moved.
    pub bam: [u64; 2],
    /// Drives that acknowledge block writes when flash holds them.
    pub ack_program: u32,
}

impl Exercised {
    /// Both.
    pub fn and(self, o: Exercised) -> Exercised {
        Exercised {
            crashes: self.crashes + o.crashes,
            in_recover: self.in_recover + o.in_recover,
            in_power_up: self.in_power_up + o.in_power_up,
            lost_blocks: self.lost_blocks + o.lost_blocks,
            unreadable: self.unreadable + o.unreadable,
            dead: self.dead + o.dead,
            gc: self.gc + o.gc,
            cleanings: self.cleanings + o.cleanings,
            bam: [self.bam[0] + o.bam[0], self.bam[1] + o.bam[1]],
            ack_program: self.ack_program + o.ack_program,
        }
    }
}

/// The drive of a seed.
fn config(rng: &mut Stream) -> DriveConfig {
    let mode = if rng.chance(0.6) { Mode::Log } else { Mode::Cache };
    let mut c = DriveConfig::tiny(mode);
    // 40 pages are touched: so small a drive that gc has to work for them.
    c.flash.geometry.blocks_per_plane = 8 + rng.below(10) as u32;
    c.flash.geometry.pages_per_block = 4 + rng.below(5) as u32;
    c.flash.over_provisioning_permille = [500, 1000, 2000][rng.below(3) as usize];
    c.firmware.log_region = Bytes::kib([16, 24, 64][rng.below(3) as usize]);
    c.firmware.cache = Bytes::kib([16, 64][rng.below(2) as usize]);
    c.firmware.write_buffer = Bytes::kib([8, 32, 64][rng.below(3) as usize]);
    if rng.chance(0.4) {
        c.firmware.bam = Some(BamConfig { entries: 120, files: 5, ..BamConfig::default() });
    }
    if rng.chance(0.4) {
        c.firmware.write_ack = WriteAck::Program;
    }
    c
}

fn rates(rng: &mut Stream) -> FaultRates {
    let mut one_of = |rates: [f64; 4]| rates[rng.below(4) as usize];
    FaultRates {
        program: one_of([0.0, 0.001, 0.005, 0.03]),
        erase: one_of([0.0, 0.002, 0.01, 0.05]),
        // Four attempts: 0.5 makes one page read in sixteen fail.
        read: one_of([0.0, 0.1, 0.3, 0.5]),
        endurance: 0,
    }
}

/// PebbleSSD's commands.
fn bam_op(rng: &mut Stream) -> Op {
    let (count, wait) = (1 + rng.below(4), rng.chance(0.5));
    let page = rng.below(PAGES - 4);
    match rng.below(20) {
        0..10 => Op::FsWrite { page, count, ino: rng.below(6), offset: rng.below(50) as u32, wait },
        // A third of them overlap.
        10..13 => Op::Remap { src: page, dst: (page + rng.below(4)).min(PAGES - 4), count, wait },
        13..19 => Op::Remap { src: page, dst: rng.below(PAGES - 4), count, wait },
        _ => Op::BamReset { wait },
    }
}

fn op(rng: &mut Stream, bam: bool) -> Op {
    if bam && rng.chance(0.3) {
        return bam_op(rng);
    }
    let page = rng.below(PAGES);
    match rng.below(100) {
        0..16 => Op::Store { at: rng.below(PAGES * 4096 - 600), len: 1 + rng.below(500) as usize },
        16..30 => Op::Store { at: page * 4096 + rng.below(64) * 64, len: 64 },
        30..40 => Op::Verify,
        40..50 => Op::Begin { page, line: rng.below(60), lines: 1 + rng.below(4), second: rng.below(PAGES) },
        50..60 => Op::Commit { wait: rng.chance(0.5) },
        60..76 => Op::Write { page: rng.below(PAGES - 4), count: 1 + rng.below(4), wait: rng.chance(0.5) },
        76..78 => Op::Trim { page, wait: rng.chance(0.5) },
        78..84 => Op::Read { page },
        84..90 => Op::Load { at: rng.below(PAGES * 4096 - 600), len: 1 + rng.below(500) as usize },
        90..95 => Op::Idle { micros: rng.below(400) },
        95 => Op::Settle,
        96 => Op::BamRead,
        _ => Op::Crash { pending: rng.chance(0.5).then(|| rng.below(PAGES * 4096)) },
    }
}

/// Lives through the schedule of a seed.
///
/// # Panics
/// Where something acknowledged is lost, or the drive contradicts itself.
pub fn live(seed: u64) -> Exercised {
    let mut rng = Stream::new(seed, "faults");
    let c = loop {
        let c = config(&mut rng);
        if c.validate().is_ok() && c.pages() >= PAGES {
            break c;
        }
    };
    let faults = Faults::new(seed, rates(&mut rng));
    let mut m = Model::on(&c, seed, Some(faults));
    for _ in 0..100 + rng.below(500) {
        m.run(&op(&mut rng, c.firmware.bam.is_some()));
        if m.dead {
            break;
        }
    }
    m.finish();
    let counters = granary_device::Drive::counters(&m.drive);
    Exercised {
        crashes: m.crashes,
        in_recover: m.interrupted[0],
        in_power_up: m.interrupted[1],
        lost_blocks: m.drive.lost_blocks() as u64,
        unreadable: m.unreadable,
        dead: m.dead as u32,
        gc: counters.flash.programs(granary_flash::Cause::Gc),
        cleanings: counters.log.cleanings,
        bam: [counters.bam.entries, counters.bam.pages_remapped + counters.bam.pages_copied],
        ack_program: (c.firmware.write_ack == WriteAck::Program) as u32,
    }
}
