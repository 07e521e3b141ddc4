//! Figures that follow from a drive's values: capacity, peak bandwidth of each part, unloaded latencies; and
//! contradictions between the values.
//!
//! ```text
//!   4 KiB read:   fetch | command | planes: read | channel | link | completion
//!   4 KiB write:  fetch | command | data request | link | completion
//!                                   ...later (or before):  channel | planes: program
//!   slowest stage = peak bandwidth
//! ```
//!
//! Computed from the values alone, by the stages that the drive's model charges; `granary drive bench`
//! measures the same. A contradiction is no error: the drive works, but not as fast as one of its values
//! says.

use granary_flash::{FtlConfig, PlaneMode};
use granary_mssd::{DriveConfig, Mode, WriteAck};
use granary_units::{Bytes, Nanos, PAGE_SIZE};

const PAGE: f64 = PAGE_SIZE as f64;

/// Bandwidth of each stage of 4 KiB commands in a long queue, bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Peaks {
    /// Link, drive to host.
    pub link_read: f64,
    /// Link, host to drive.
    pub link_write: f64,
    /// All channel buses.
    pub channels: f64,
    /// All planes, reading.
    pub planes_read: f64,
    /// All planes, programming.
    pub planes_program: f64,
    /// The firmware's processors, one command per page.
    pub firmware: f64,
}

impl Peaks {
    /// Of a testbed's drive.
    pub fn of(drive: &DriveConfig) -> Peaks {
        let d = &drive.at_clock();
        let (g, n) = (&d.flash.geometry, &d.flash.timing);
        // Planes of a die that work together count as one where the die does one thing at a time, and without
        // a cache register a plane waits for the bus.
        let at_once = match d.flash.plane_mode {
            PlaneMode::OneAtATime => g.plane_count() / g.planes,
            PlaneMode::Independent | PlaneMode::MultiPlane => g.plane_count(),
        };
        let bus = |cached: bool| if cached { Nanos::ZERO } else { n.transfer(PAGE_SIZE as u64) };
        let planes = |time: Nanos, cached| rate(PAGE * at_once as f64, time + bus(cached));
        Peaks {
            link_read: d.link.read_bandwidth.0 as f64,
            link_write: d.link.write_bandwidth.0 as f64,
            channels: n.channel_bandwidth.0 as f64 * g.channels as f64,
            planes_read: planes(n.read, d.flash.cache_read),
            planes_program: planes(n.program, d.flash.cache_program),
            firmware: rate(PAGE * d.firmware.cores as f64, d.firmware.command_cost),
        }
    }

    /// Peak bandwidth of 4 KiB reads, and the stage that limits them.
    pub fn read(&self) -> (f64, &'static str) {
        least([
            (self.link_read, "link"),
            (self.channels, "channels"),
            (self.planes_read, "planes"),
            (self.firmware, "firmware"),
        ])
    }

    /// The same of 4 KiB writes without gc, once the write buffer is full.
    pub fn write(&self) -> (f64, &'static str) {
        least([
            (self.link_write, "link"),
            (self.channels, "channels"),
            (self.planes_program, "planes"),
            (self.firmware, "firmware"),
        ])
    }
}

fn rate(bytes: f64, time: Nanos) -> f64 {
    if time.0 == 0 { f64::INFINITY } else { bytes * 1e9 / time.0 as f64 }
}

fn least<const N: usize>(stages: [(f64, &'static str); N]) -> (f64, &'static str) {
    stages.into_iter().min_by(|a, b| a.0.total_cmp(&b.0)).expect("there are stages")
}

/// Time of `bytes` at a bandwidth, as the drive rounds it.
fn span(bytes: u64, bandwidth: Bytes) -> Nanos {
    Nanos((bytes * 1_000_000_000).div_ceil(bandwidth.0))
}

/// A lone 4 KiB read from flash: the sum of its stages.
pub fn lone_read(ssd: &DriveConfig) -> Nanos {
    let (d, page) = (&ssd.at_clock(), PAGE_SIZE as u64);
    let flash = &d.flash.timing;
    d.link.nvme.fetch
        + d.firmware.command_cost
        + flash.read
        + flash.transfer(page)
        + span(page, d.link.read_bandwidth)
        + d.link.nvme.completion
}

/// A lone 4 KiB write into the write buffer, or to flash where that is what the drive acknowledges.
pub fn lone_write(ssd: &DriveConfig) -> Nanos {
    let (d, page) = (&ssd.at_clock(), PAGE_SIZE as u64);
    let l = &d.link;
    let program = match d.acknowledges() {
        WriteAck::Buffer => Nanos::ZERO,
        WriteAck::Program => d.flash.timing.transfer(page) + d.flash.timing.program,
    };
    l.nvme.fetch
        + d.firmware.command_cost
        + l.nvme.data_request
        + span(page, l.write_bandwidth)
        + program
        + l.nvme.completion
}

/// Name and value of each figure, in the order of a report.
pub fn figures(ssd: &DriveConfig) -> Vec<(&'static str, String)> {
    let (d, p) = (&ssd.at_clock(), Peaks::of(ssd));
    let g = &d.flash.geometry;
    let pages = d.pages();
    let flash = &d.flash.timing;
    let gb = |b: f64| if b.is_finite() { format!("{:.2} GB/s", b / 1e9) } else { "no limit".to_owned() };
    let limited = |(b, by): (f64, &str)| format!("{}, limited by the {by}", gb(b));
    let per_line = d.firmware.entry_cost + d.firmware.line_cost;
    let miss = d.link.line_read + flash.read + flash.transfer(PAGE_SIZE as u64);
    let dram = Bytes(pages * 4)
        + Bytes(d.firmware.log_region.0.max(d.firmware.cache.0))
        + d.firmware.txlog
        + d.firmware.write_buffer;
    vec![
        ("capacity", format!("{}, {pages} pages", Bytes(pages * PAGE_SIZE as u64))),
        ("raw flash", format!("{}, {:.1} % over-provisioned", g.raw(), spare_percent(&d.flash))),
        (
            "planes",
            format!(
                "{} = {} channels x {} ways x {} dies x {} planes",
                g.plane_count(),
                g.channels,
                g.ways,
                g.dies,
                g.planes
            ),
        ),
        ("drive DRAM", format!("{dram}: map 4 B per page, log or cache, TxLog, write buffer")),
        ("link, read", gb(p.link_read)),
        ("link, write", gb(p.link_write)),
        ("channels", gb(p.channels)),
        ("planes, read", gb(p.planes_read)),
        ("planes, program", gb(p.planes_program)),
        ("firmware, 4 KiB commands", gb(p.firmware)),
        (
            "firmware, byte accesses",
            format!("{:.2} million/s", rate(d.firmware.cores as f64, per_line) / 1e6),
        ),
        ("peak 4 KiB reads", limited(p.read())),
        ("peak 4 KiB writes", limited(p.write())),
        ("lone 4 KiB read from flash", lone_read(ssd).to_string()),
        ("lone 4 KiB write", lone_write(ssd).to_string()),
        ("64 B load, in the drive's DRAM", d.link.line_read.to_string()),
        ("64 B load, from flash", miss.to_string()),
        ("64 B store", d.link.line_write.to_string()),
        ("64 B store made safe", (d.link.line_write + d.link.verify()).to_string()),
    ]
}

fn spare_percent(flash: &FtlConfig) -> f64 {
    let (pages, raw) = (flash.capacity_pages() as f64, flash.geometry.pages() as f64);
    (raw / pages - 1.0) * 100.0
}

/// The [`contradictions`] of a drive whose firmware is in the mode of a run, each with the key in front.
pub fn of_run(drive: &DriveConfig) -> Vec<String> {
    let unused: &[&str] = match drive.firmware.mode {
        Mode::Log => &["drive.firmware.cache"],
        Mode::Cache => &["drive.firmware.log_region", "drive.firmware.txlog"],
        Mode::Own(_) => &["drive.firmware.cache", "drive.firmware.log_region", "drive.firmware.txlog"],
    };
    let found = contradictions(drive).into_iter().filter(|(key, _)| !unused.contains(key));
    found.map(|(key, text)| format!("{key}: {text}")).collect()
}

/// Values that other values contradict, and those that no hardware has: the key to look at and a sentence.
pub fn contradictions(drive: &DriveConfig) -> Vec<(&'static str, String)> {
    let (d, p) = (&drive.at_clock(), Peaks::of(drive));
    let g = &d.flash.geometry;
    let flash = &d.flash.timing;
    let mut out = Vec::new();
    let gb = |b: f64| format!("{:.2} GB/s", b / 1e9);
    let dies = |bandwidth: f64, time: Nanos| (bandwidth * time.0 as f64 / 1e9 / PAGE).ceil();
    for (peak, link, verb, time) in [
        (p.planes_read, p.link_read, "read", flash.read),
        (p.planes_program, p.link_write, "program", flash.program),
    ] {
        if peak < link {
            out.push((
                "drive.flash.geometry.ways",
                format!(
                    "{} planes of {time} {verb} {}, so that the link's {} cannot be reached: {} planes would",
                    g.plane_count(),
                    gb(peak),
                    gb(link),
                    dies(link, time)
                ),
            ));
        }
    }
    let link = p.link_read.max(p.link_write);
    if p.channels < link {
        out.push((
            "drive.flash.nand.channel_bandwidth",
            format!(
                "{} channels carry {}, so that the link's {} cannot be reached",
                g.channels,
                gb(p.channels),
                gb(link)
            ),
        ));
    }
    // A plain SSD's data sheet bounds its 4 KiB commands below its link on purpose; larger ones reach it.
    let pages = if drive.window { 1.0 } else { d.link.nvme.max_transfer as f64 };
    if p.firmware * pages < link {
        out.push((
            "drive.firmware.command_cost",
            format!(
                "the firmware takes {} of 4 KiB commands, the link {}: more cores or larger commands are needed",
                gb(p.firmware),
                gb(link)
            ),
        ));
    }
    let two_each = Bytes(2 * g.plane_count() as u64 * PAGE_SIZE as u64);
    if d.firmware.write_buffer < two_each {
        out.push((
            "drive.firmware.write_buffer",
            format!(
                "less than two pages for each plane ({two_each}): planes stand idle while others program"
            ),
        ));
    }
    if drive.window && d.link.line_write > d.link.line_read {
        out.push((
            "drive.link.line_write",
            "a posted store takes longer than a load that waits for data".to_owned(),
        ));
    }
    if drive.window && d.link.verify() * 2 < d.link.line_read {
        out.push((
            "drive.link.verify_read",
            format!(
                "a write-verify read of {} beside a line's of {}: both go to the drive and back behind the stores before them",
                d.link.verify(),
                d.link.line_read
            ),
        ));
    }
    let work = d.firmware.entry_cost + d.firmware.line_cost;
    if drive.window && d.link.line_read < work {
        out.push((
            "drive.link.line_read",
            format!("a loaded line takes the firmware {work} alone, its time end to end is to contain that"),
        ));
    }
    if flash.erase < flash.program || flash.program < flash.read {
        out.push((
            "drive.flash.nand.erase_ns",
            "NAND reads faster than it programs and programs faster than it erases".to_owned(),
        ));
    }
    out.extend(without_effect(drive));
    out.extend(spare(&d.flash));
    out.extend(implausible(&d.flash));
    out
}

/// Over-provisioning that is not what is stated, since gc needs a number of blocks whatever the share says.
/// By more than a tenth of it: write amplification follows the real one.
fn spare(flash: &FtlConfig) -> Option<(&'static str, String)> {
    const KEY: &str = "drive.flash.over_provisioning_permille";
    let (permille, real) = (flash.over_provisioning_permille as u64, spare_percent(flash));
    let (stated, needs) = (permille as f64 / 10.0, flash.reserved_blocks());
    if permille > MUCH_SPARE {
        return Some((KEY, format!("{stated} %: more spare than data; it is in thousandths, 70 is 7 %")));
    }
    if (real - stated).abs() <= stated / 10.0 {
        return None;
    }
    let text = format!(
        "{stated} % are stated, {real:.1} % it is: each plane needs {needs} blocks for gc beside its data"
    );
    let enough = (needs * (1000 + permille)).checked_div(permille);
    let remedy =
        enough.map_or(String::new(), |n| format!("; with {n} blocks_per_plane it would be {stated} %"));
    Some((KEY, text + &remedy))
}

/// Over-provisioning beyond which there is more spare flash than data, thousandths.
const MUCH_SPARE: u64 = 1000;
/// The quickest NAND reads in some 3 us (Z-NAND: "Ultra-low latency with Samsung Z-NAND SSD", Samsung 2017).
const QUICKEST: Nanos = Nanos(1_000);
/// Failures in 10^9 operations beyond which flash would have been retired long before: one in ten.
const MANY_FAILURES: u32 = 100_000_000;

/// Values that no flash has; a model can be asked of them all the same.
fn implausible(flash: &FtlConfig) -> Vec<(&'static str, String)> {
    let (t, e) = (&flash.timing, &flash.errors);
    let times = [
        ("drive.flash.nand.read_ns", t.read),
        ("drive.flash.nand.program_ns", t.program),
        ("drive.flash.nand.erase_ns", t.erase),
    ];
    let quick = times.into_iter().filter(|(_, time)| *time < QUICKEST).map(|(key, time)| {
        (key, format!("{time}: no NAND is done in less than a microsecond; times are in nanoseconds"))
    });
    let rates = [
        ("drive.flash.errors.read_ppb", e.read_ppb, "reads"),
        ("drive.flash.errors.program_ppb", e.program_ppb, "programs"),
        ("drive.flash.errors.erase_ppb", e.erase_ppb, "erases"),
    ];
    let failing = rates.into_iter().filter(|(_, ppb, _)| *ppb > MANY_FAILURES).map(|(key, ppb, what)| {
        (key, format!("{:.0} % of all {what} fail: flash is retired long before", ppb as f64 / 1e7))
    });
    quick.chain(failing).collect()
}

/// Values that change nothing, because of others.
fn without_effect(d: &DriveConfig) -> Vec<(&'static str, String)> {
    let mut out = Vec::new();
    if d.flash.idle_gc_stop > 0 && d.flash.idle_gc.0 == 0 {
        out.push((
            "drive.flash.idle_gc_stop",
            "has no effect: with idle_gc_ns = 0 there is no gc in idle time".to_owned(),
        ));
    }
    if d.flash.plane_mode == PlaneMode::MultiPlane && d.flash.geometry.planes == 1 {
        out.push((
            "drive.flash.plane_mode",
            "\"multi-plane\" has no effect: there is one plane in a die".to_owned(),
        ));
    }
    if d.flash.plane_mode == PlaneMode::MultiPlane && d.flash.geometry.planes > 1 {
        out.push((
            "drive.flash.plane_mode",
            "\"multi-plane\" pairs what the host and the cleaning of the log write; gc's copies go one at a time, so that in the \
             steady state of random writes it comes to \"one-at-a-time\""
                .to_owned(),
        ));
    }
    if d.firmware.txlog > d.firmware.log_region {
        out.push((
            "drive.firmware.txlog",
            format!(
                "the TxLog of {} is larger than the log whose transactions it lists, {}: it cannot become full",
                d.firmware.txlog, d.firmware.log_region
            ),
        ));
    }
    let flash = Bytes(d.pages() * PAGE_SIZE as u64);
    for (key, what, size) in [
        ("drive.firmware.cache", "cache", d.firmware.cache),
        ("drive.firmware.log_region", "log", d.firmware.log_region),
        ("drive.firmware.write_buffer", "write buffer", d.firmware.write_buffer),
    ] {
        if size >= flash {
            out.push((
                key,
                format!("the {what} of {size} holds the whole drive, {flash}: its flash is not used"),
            ));
        }
    }
    out
}
