//! [`DriveConfig`]: everything about a drive that can be chosen, with the source of each value.
//!
//! ```text
//!   DriveConfig
//!     link      bandwidth per direction, cache-line latencies, write-combining buffers, NVMe latencies
//!     firmware  log or cache mode, sizes of its DRAM parts, cost of its processor
//!     flash     geometry and timing of the NAND array (granary-flash)
//! ```
//!
//! A configuration that [`DriveConfig::validate`] accepts makes a working drive.
//! It does *not* hold workload or host parameters.

mod bam;
mod mode;
mod validate;

pub use bam::BamConfig;
use bam::{bam_names, entries_for};
pub use mode::Mode;
pub use validate::ConfigError;

use granary_flash::{FtlConfig, Geometry, NandTiming};
use granary_units::{Bytes, LINE_SIZE, Nanos};
use serde::{Deserialize, Serialize};

/// A whole drive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriveConfig {
    /// The host can load and store its pages; a plain SSD has no such window.
    #[serde(default = "has_window", skip_serializing_if = "is_there")]
    pub window: bool,
    /// The way between host and drive.
    pub link: LinkConfig,
    /// The drive's processor and DRAM.
    pub firmware: FirmwareConfig,
    /// The flash array and its FTL.
    pub flash: FtlConfig,
}

fn has_window() -> bool {
    true
}

fn is_there(window: &bool) -> bool {
    *window
}

/// The host link: PCIe or CXL.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkConfig {
    /// Drive to host, bytes of payload per second with 4 KiB transfers (so packet overhead is in it already).
    pub read_bandwidth: Bytes,
    /// Host to drive, bytes per second.
    pub write_bandwidth: Bytes,
    /// Bytes that each 64 B line occupies the link with beyond its payload: headers and framing of its packet
    /// (TLP).
    #[serde(default = "tlp_overhead")]
    pub tlp_overhead: Bytes,
    /// Non-posted load of one line that the drive's DRAM holds, end to end. Unloaded firmware work is
    /// included.
    pub line_read: Nanos,
    /// Posted store of one line: until the CPU may go on after clwb and sfence.
    pub line_write: Nanos,
    /// Write-verify read of zero bytes; the time of a line read where left out.
    #[serde(default)]
    pub verify_read: Option<Nanos>,
    /// Lines that the host's write-combining buffers hold.
    #[serde(default = "wc_buffers")]
    pub wc_buffers: usize,
    /// Posted lines that the drive's buffer holds until the firmware takes them.
    #[serde(default = "posted_lines")]
    pub posted_lines: usize,
    /// Lines of one load that are under way at a time, each for `line_read`; 0: all of them, one behind the
    /// other at the link's bandwidth.
    #[serde(default)]
    pub load_lines: usize,
    /// One direction at a time, as SATA.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub half_duplex: bool,
    /// The command interface.
    #[serde(default)]
    pub nvme: NvmeConfig,
}

/// Latencies of the NVMe queues, each without the time that data occupies the link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NvmeConfig {
    /// Doorbell write and fetch of the submission entry.
    pub fetch: Nanos,
    /// Request for the data of a write: first byte after the drive asks the host's memory.
    pub data_request: Nanos,
    /// Completion entry and interrupt on their way to the host.
    pub completion: Nanos,
    /// Largest command, in pages of 4 KiB.
    pub max_transfer: usize,
    /// Commands that the drive works on at a time; others wait in the host's queue. 0: all that there are.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub queue_depth: usize,
}

fn is_zero(n: &usize) -> bool {
    *n == 0
}

impl Default for NvmeConfig {
    /// From one PCIe round trip: a 64 B DMA read takes 547 ns (median, Xeon E5 v3: the processor generation
    /// of ByteFS section 5.1) in Neugebauer et al., "Understanding PCIe performance for end host networking",
    /// SIGCOMM 2018. Posted writes are taken as half of it. Doorbell + fetch = 1.5, data request = 1,
    /// completion = 0.5 round trips. With one firmware command cost this gives a 4 KiB write of 3.7 us;
    /// NVMeVirt's calibration of a Samsung 970 PRO (the SSD of the paper's Table 1) has 4.46 us. Largest
    /// command: the 970 PRO's 256 KiB (same calibration, MDTS 6).
    fn default() -> NvmeConfig {
        NvmeConfig {
            fetch: Nanos(820),
            data_request: Nanos(547),
            completion: Nanos(274),
            max_transfer: 64,
            queue_depth: 0,
        }
    }
}

/// 24 B: framing 2, data link layer 6, header 16 of a memory write with 64-bit address (Neugebauer et al.,
/// section 3).
fn tlp_overhead() -> Bytes {
    Bytes(24)
}

/// Line fill buffers of one core, which serve as write-combining buffers: 10 since Nehalem, Haswell included
/// (Intel 64 and IA-32 Architectures Optimization Reference Manual).
fn wc_buffers() -> usize {
    10
}

/// 127 posted headers, and data for more lines than that: what the receive buffer of a PCI Express endpoint
/// advertises (Intel L- and H-Tile FPGA IP for PCI Express user guide, "RX Buffer").
fn posted_lines() -> usize {
    127
}

impl LinkConfig {
    /// Time of a write-verify read.
    pub fn verify(&self) -> Nanos {
        // The paper gives no figure of its own for the zero-byte read; it is a non-posted read like any
        // other, so the line read is the conservative choice.
        self.verify_read.unwrap_or(self.line_read)
    }
}

/// When the host is told that a block write is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WriteAck {
    /// When the drive's battery-backed memory holds its pages: the write buffer, or in cache mode the cache.
    #[default]
    Buffer,
    /// When flash holds its pages: they are programmed at once, ahead of what waits in the write buffer, and
    /// in cache mode through the cache, which keeps them clean. As FEMU and the emulator that the ByteFS
    /// authors released do it.
    Program,
}

/// The drive's processor and DRAM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FirmwareConfig {
    /// Log or cache.
    pub mode: Mode,
    /// Log mode: size of the log. Divided into two halves for double buffering: the host appends to one while
    /// the other is cleaned.
    #[serde(default = "dram_256m")]
    pub log_region: Bytes,
    /// Log mode: size of the transaction log, 4 B for each commit.
    #[serde(default = "txlog")]
    pub txlog: Bytes,
    /// Log mode: part of a half, in thousandths, at which cleaning starts and the halves change roles.
    #[serde(default = "clean_threshold")]
    pub clean_threshold_permille: u32,
    /// Cache mode: size of the page cache.
    #[serde(default = "dram_256m")]
    pub cache: Bytes,
    /// Pages on their way to flash.
    #[serde(default = "write_buffer")]
    pub write_buffer: Bytes,
    /// When a block write (also FS_WRITE) is acknowledged. Durable once acknowledged it is in either case.
    #[serde(default)]
    pub write_ack: WriteAck,
    /// The same in cache mode, where it differs: the released emulator acknowledges what ByteFS's log takes
    /// at once, and the baselines' blocks when they are programmed.
    #[serde(default)]
    pub cache_write_ack: Option<WriteAck>,
    /// Cache mode: a power failure takes what no FLUSH has brought to flash, as in a drive without power-loss
    /// protection. Else capacitors keep it, and FLUSH has nothing to do.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub volatile_cache: bool,
    /// With `volatile_cache`: a page that no FLUSH covers may get to flash in part, by sectors of 512 B
    /// (NVMe: an AWUPF below a page).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tears_pages: bool,
    /// With `volatile_cache`: time of a FLUSH beyond the programs that it waits for, ns.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub flush_cost: Nanos,
    /// Processors that serve the host.
    #[serde(default = "cores")]
    pub cores: usize,
    /// Clock of the processors, MHz.
    #[serde(default = "clock")]
    pub clock_mhz: u32,
    /// Clock at which the processor times below were measured, MHz: at another one they scale.
    #[serde(default = "clock")]
    pub rated_mhz: u32,
    /// Processor time of one NVMe command.
    #[serde(default = "command_cost")]
    pub command_cost: Nanos,
    /// Processor time of one byte-interface access, and of each log entry in cleaning and recovery: one index
    /// lookup.
    #[serde(default = "entry_cost")]
    pub entry_cost: Nanos,
    /// Processor (DRAM copy) time of each line on top.
    #[serde(default = "line_cost")]
    pub line_cost: Nanos,
    /// Time from power-up until the drive answers: its DRAM content is loaded back.
    #[serde(default = "power_on")]
    pub power_on: Nanos,
    /// Byte-addressable metadata (PebbleSSD), beside either mode; none where left out.
    #[serde(default)]
    pub bam: Option<BamConfig>,
}

fn is_nothing(time: &Nanos) -> bool {
    *time == Nanos::ZERO
}

fn is_none(number: &u32) -> bool {
    *number == 0
}

/// 256 MB log or cache (section 4.3 and 5.1).
fn dram_256m() -> Bytes {
    Bytes::mib(256)
}

/// 2 MB (section 4.3).
fn txlog() -> Bytes {
    Bytes::mib(2)
}

/// 85 % (section 4.3).
fn clean_threshold() -> u32 {
    850
}

/// 16 MB (section 4.9).
fn write_buffer() -> Bytes {
    Bytes::mib(16)
}

/// One core: the prototype's ARM core, the emulator's pinned thread (section 4.9).
fn cores() -> usize {
    1
}

/// 1 GHz: the ARM Cortex-A9 of the prototype's OpenSSD board (Cosmos+, Zynq-7045).
fn clock() -> u32 {
    1000
}

/// 460 ns: NVMeVirt's calibrated firmware time for each 4 KiB of a Samsung 970 PRO. One core then serves 2.2
/// million commands/s, above the 0.85 million that Table 4's 3.5 GB/s with 4 KiB transfers asks for.
fn command_cost() -> Nanos {
    Nanos(460)
}

/// 89 ns: average index lookup with a full log on the prototype's ARM core (section 4.3).
fn entry_cost() -> Nanos {
    Nanos(89)
}

/// 15 ns: 64 B at 4.2 GB/s, the 32-bit DDR3-1066 of the Cosmos+ OpenSSD board (Zynq-7000 data sheet).
fn line_cost() -> Nanos {
    Nanos(15)
}

/// 0.9 s to load the whole SSD DRAM (section 5.5, 1 GB prototype).
fn power_on() -> Nanos {
    Nanos::from_millis(900)
}

impl DriveConfig {
    /// The emulator of the paper (Table 4), log mode: 32 GB, 8 channels, 40/60 us, 3.5/2.5 GB/s, 4.8/0.6 us
    /// per line.
    ///
    /// Some values are not in the paper and are chosen here. 8 ways per channel: the smallest power of two at
    /// which 60 us programs reach the stated 2.5 GB/s (2.5e9 B/s x 60 us / 4096 B = 37 dies). A channel bus
    /// of 800 MB/s: ONFI 4.0, NV-DDR3; 3.5 GB/s over 8 channels needs 437 MB/s. 2 ms erase and 128 pages per
    /// block: the released artifact's constants.
    pub fn bytefs_emulator() -> DriveConfig {
        let geometry = Geometry {
            channels: 8,
            ways: 8,
            dies: 1,
            planes: 1,
            // `with_capacity` below computes the blocks.
            blocks_per_plane: 1,
            pages_per_block: 128,
        };
        let timing = NandTiming {
            read: Nanos::from_micros(40),
            program: Nanos::from_micros(60),
            erase: Nanos::from_millis(2),
            channel_bandwidth: Bytes(800_000_000),
        };
        DriveConfig {
            window: true,
            link: LinkConfig {
                read_bandwidth: Bytes(3_500_000_000),
                write_bandwidth: Bytes(2_500_000_000),
                tlp_overhead: tlp_overhead(),
                line_read: Nanos(4_800),
                line_write: Nanos(600),
                verify_read: None,
                wc_buffers: wc_buffers(),
                posted_lines: posted_lines(),
                load_lines: 0,
                half_duplex: false,
                nvme: NvmeConfig::default(),
            },
            firmware: FirmwareConfig::new(Mode::Log),
            flash: FtlConfig::new(geometry, timing).with_capacity(Bytes::gib(32)),
        }
    }

    /// The same drive as a file system on its own processors sees it: no link, no queue of commands. A load
    /// or a store takes the firmware's work (`entry_cost`, `line_cost`), and lines move at the speed of the
    /// drive's memory, which is `line_cost` for 64 B. Everything else is the drive's.
    #[must_use]
    pub fn from_inside(mut self) -> DriveConfig {
        let firmware = &self.firmware;
        let per_line = firmware.line_cost.max(Nanos(1));
        let memory = Bytes(LINE_SIZE as u64 * 1_000_000_000 / per_line.0);
        self.link = LinkConfig {
            read_bandwidth: memory,
            write_bandwidth: memory,
            tlp_overhead: Bytes(0),
            line_read: firmware.entry_cost + per_line,
            line_write: per_line,
            verify_read: Some(Nanos(0)),
            half_duplex: false,
            nvme: NvmeConfig {
                fetch: Nanos(0),
                data_request: Nanos(0),
                completion: Nanos(0),
                ..self.link.nvme.clone()
            },
            ..self.link
        };
        self
    }

    /// When a block write is acknowledged in the firmware's mode.
    pub fn acknowledges(&self) -> WriteAck {
        match self.firmware.mode {
            Mode::Log | Mode::Own(_) => self.firmware.write_ack,
            Mode::Cache => self.firmware.cache_write_ack.unwrap_or(self.firmware.write_ack),
        }
    }

    /// The same drive with the other firmware.
    pub fn with_mode(mut self, mode: Mode) -> DriveConfig {
        self.firmware.mode = mode;
        self
    }

    /// A drive of a few MiB with a log (8 KiB a half), cache (16 pages) and write buffer (8 pages) so small
    /// that cleaning, eviction and gc run all the time. For tests, here and in other crates.
    pub fn tiny(mode: Mode) -> DriveConfig {
        let mut c = DriveConfig::bytefs_emulator().with_mode(mode);
        c.firmware.log_region = Bytes::kib(16);
        c.firmware.txlog = Bytes(256);
        c.firmware.cache = Bytes::kib(64);
        c.firmware.write_buffer = Bytes::kib(32);
        c.flash.geometry =
            Geometry { channels: 2, ways: 2, dies: 1, planes: 1, blocks_per_plane: 24, pages_per_block: 8 };
        c.flash.over_provisioning_permille = 1000;
        c
    }

    /// The same drive with PebbleSSD's commands, its tables as large as the drive.
    pub fn with_bam(mut self) -> DriveConfig {
        self.firmware.bam = Some(BamConfig {
            entries: entries_for(self.pages()),
            names: (self.pages() as u32).min(bam_names()),
            ..BamConfig::default()
        });
        self
    }

    /// The same drive on larger flash. The file-offset table grows with it where it had an entry for each
    /// page.
    pub fn on_larger_flash(&self, flash: FtlConfig) -> DriveConfig {
        let mut drive = DriveConfig { flash, ..self.clone() };
        if let (Some(had), Some(bam)) = (&self.firmware.bam, &mut drive.firmware.bam)
            && had.entries as u64 >= self.pages()
        {
            bam.entries = bam.entries.max(entries_for(flash.capacity_pages()));
        }
        drive
    }

    /// The same drive with processor times as they are at its clock, and that clock as the rated one. Copies
    /// between memories (`line_cost`) do not depend on it.
    pub fn at_clock(&self) -> DriveConfig {
        let mut c = self.clone();
        let f = &mut c.firmware;
        let (clock, rated) = (f.clock_mhz as u64, f.rated_mhz as u64);
        let scale = |cost: &mut Nanos| *cost = Nanos((cost.0 * rated).div_ceil(clock));
        scale(&mut f.command_cost);
        scale(&mut f.entry_cost);
        if let Some(bam) = &mut f.bam {
            scale(&mut bam.entry_cost);
            scale(&mut bam.remap_cost);
        }
        f.rated_mhz = f.clock_mhz;
        c
    }

    /// Logical pages of the drive.
    pub fn pages(&self) -> u64 {
        self.flash.capacity_pages()
    }
}

impl FirmwareConfig {
    /// Second names that pages can have (REMAP keep). None beside a write log, whose lines are a page's under
    /// one name only.
    pub fn names(&self) -> u32 {
        match (&self.bam, self.mode) {
            (Some(bam), Mode::Cache) => bam.names,
            _ => 0,
        }
    }

    /// This mode with the paper's sizes.
    pub fn new(mode: Mode) -> FirmwareConfig {
        FirmwareConfig {
            mode,
            log_region: dram_256m(),
            txlog: txlog(),
            clean_threshold_permille: clean_threshold(),
            cache: dram_256m(),
            write_buffer: write_buffer(),
            write_ack: WriteAck::default(),
            cache_write_ack: None,
            volatile_cache: false,
            tears_pages: false,
            flush_cost: Nanos::ZERO,
            cores: cores(),
            clock_mhz: clock(),
            rated_mhz: clock(),
            command_cost: command_cost(),
            entry_cost: entry_cost(),
            line_cost: line_cost(),
            power_on: power_on(),
            bam: None,
        }
    }
}

#[cfg(test)]
mod tests;
