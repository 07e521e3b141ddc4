//! Ranges of a testbed's numbers, beyond those that make no drive: with what is outside them a run does not end, or
//! measures nothing that there could be.
//!
//! A daemon that pauses for no time never lets the clock go on; one that pauses for a nanosecond, or a call that takes
//! years (in which daemons wake by the billion), comes to the same. A thousand times less than what real systems have is
//! allowed, so that any question can be asked of a model.

use super::Testbed;
use granary_units::Nanos;

/// Shortest pause of a daemon. Linux's timers have steps of 1 to 10 ms.
const SHORTEST: Nanos = Nanos(1_000);
/// Longest time that one thing takes. NAND has the same limit: an erase takes some ms.
const LONGEST: Nanos = Nanos(1_000_000_000);
/// Longest start of a drive: NVMe's CAP.TO allows no more than 127.5 s to get ready.
const LONGEST_START: Nanos = Nanos(127_500_000_000);
/// Most processors and daemons: Linux on x86-64 has at most 8192 (NR_CPUS).
const MOST: usize = 8192;
/// Longest run of free blocks that F2FS tells of on its own, as Linux's `discard_granularity` (MAX_PLIST_NUM).
const LONGEST_RUN: u32 = 512;

/// What is so far out of its range that the drive could not be asked about the rest: begins with the key's whole path.
pub(super) fn before(t: &Testbed) -> Option<String> {
    let (stop, blocks) = (t.drive.flash.gc_stop, t.drive.flash.geometry.blocks_per_plane);
    (blocks > 0 && stop >= blocks)
        .then(|| format!("drive.flash.gc_stop is {stop}: a plane has {blocks} blocks (blocks_per_plane)"))
}

/// What is out of its range, of a testbed whose drive is good: begins with the key's whole path.
pub(super) fn refusal(t: &Testbed) -> Option<String> {
    names(t).or_else(|| pauses(t)).or_else(|| times(t)).or_else(|| counts(t)).or_else(|| scaled(t))
}

/// Both are lines of lists, and the name is a word of records.
fn names(t: &Testbed) -> Option<String> {
    let line = |text: &str| !text.contains(char::is_control);
    if !line(&t.name) || t.name.trim().is_empty() {
        return Some(
            "name must be one line of text that says something: lists and records show it".to_owned(),
        );
    }
    (!line(&t.description)).then(|| "description must be one line of text: lists show it".to_owned())
}

fn pauses(t: &Testbed) -> Option<String> {
    let h = &t.host;
    let (gc, discard) = (h.f2fs.gc_sleep, h.f2fs.discard_sleep);
    if h.f2fs.checkpoint_interval < SHORTEST {
        return Some(format!(
            "host.f2fs.checkpoint_interval must be at least {}: a checkpoint is so old before the next, in nanoseconds; 60 s \
             are 60000000000",
            SHORTEST.0
        ));
    }
    [
        ("host.vfs.writeback_interval", h.vfs.writeback_interval),
        ("host.bytefs.commit_interval", h.bytefs.commit_interval),
        ("host.ext4.commit_interval", h.ext4.commit_interval),
        ("host.ext4.writeback_interval", h.ext4.writeback_interval),
        ("host.f2fs.idle_interval", h.f2fs.idle_interval),
        ("host.f2fs.gc_sleep", gc.0.min(gc.1).min(gc.2)),
        ("host.f2fs.discard_sleep", discard.0.min(discard.1).min(discard.2)),
    ]
    .into_iter()
    .find(|(_, pause)| *pause < SHORTEST)
    .map(|(key, _)| {
        format!(
            "{key} must be at least {}: a daemon sleeps so long, in nanoseconds; 5 s are 5000000000",
            SHORTEST.0
        )
    })
}

fn times(t: &Testbed) -> Option<String> {
    let (c, l, f) = (&t.host.costs, &t.drive.link, &t.drive.firmware);
    let nand = &t.drive.flash.timing;
    let zero = [
        ("drive.flash.nand.read_ns", nand.read),
        ("drive.flash.nand.program_ns", nand.program),
        ("drive.flash.nand.erase_ns", nand.erase),
    ];
    if let Some((key, _)) = zero.into_iter().find(|(_, time)| time.0 == 0) {
        return Some(format!("{key} must be at least 1: no flash works in no time"));
    }
    let long = [
        ("host.costs.syscall", c.syscall),
        ("host.costs.path_component", c.path_component),
        ("host.costs.inode_op", c.inode_op),
        ("host.costs.namespace_op", c.namespace_op),
        ("host.costs.page", c.page),
        ("host.costs.journal_handle", c.journal_handle),
        ("host.costs.journal_block", c.journal_block),
        ("host.costs.journal_join", c.journal_join),
        ("host.costs.dentry_find", c.dentry_find),
        ("host.costs.dentry_scan", c.dentry_scan),
        ("host.costs.dentry_hash", c.dentry_hash),
        ("host.costs.dentry_insert", c.dentry_insert),
        ("host.costs.dentry_remove", c.dentry_remove),
        ("host.costs.dir_block_init", c.dir_block_init),
        ("host.costs.inode_alloc", c.inode_alloc),
        ("host.costs.inode_free", c.inode_free),
        ("host.costs.inode_update", c.inode_update),
        ("host.costs.inode_dirty", c.inode_dirty),
        ("host.costs.inode_read", c.inode_read),
        ("host.costs.orphan", c.orphan),
        ("host.costs.extent_alloc", c.extent_alloc),
        ("host.costs.extent_search", c.extent_search),
        ("host.costs.extent_free", c.extent_free),
        ("host.costs.extent_update", c.extent_update),
        ("host.costs.delayed_page", c.delayed_page),
        ("host.costs.xattr_update", c.xattr_update),
        ("host.costs.log_entry", c.log_entry),
        ("host.costs.bio_submit", c.bio_submit),
        ("host.costs.dma_map", c.dma_map),
        ("host.costs.nvme_submit", c.nvme_submit),
        ("host.costs.request_complete", c.request_complete),
        ("host.costs.context_switch", c.context_switch),
        ("host.vfs.compare_page", t.host.vfs.compare_page),
        ("drive.link.line_read", l.line_read),
        ("drive.link.line_write", l.line_write),
        ("drive.link.verify_read", l.verify()),
        ("drive.link.nvme.fetch", l.nvme.fetch),
        ("drive.link.nvme.data_request", l.nvme.data_request),
        ("drive.link.nvme.completion", l.nvme.completion),
        ("drive.firmware.command_cost", f.command_cost),
        ("drive.firmware.entry_cost", f.entry_cost),
        ("drive.firmware.line_cost", f.line_cost),
        ("drive.firmware.bam.entry_cost", f.bam.as_ref().map_or(Nanos::ZERO, |b| b.entry_cost)),
        ("drive.firmware.bam.remap_cost", f.bam.as_ref().map_or(Nanos::ZERO, |b| b.remap_cost)),
    ];
    if let Some((key, _)) = long.into_iter().find(|(_, time)| *time > LONGEST) {
        return Some(format!("{key} is longer than a second; times are in nanoseconds"));
    }
    (f.power_on > LONGEST_START)
        .then(|| format!("drive.firmware.power_on is longer than {LONGEST_START}; times are in nanoseconds"))
}

fn counts(t: &Testbed) -> Option<String> {
    let none = [
        ("host.bytefs.cpus", t.host.bytefs.cpus == 0, "there is one that allocates"),
        ("host.ext4.cpus", t.host.ext4.cpus == 0, "there is one that allocates"),
        ("host.f2fs.victim_search", t.host.f2fs.victim_search == 0, "a search looks at one segment"),
        ("host.f2fs.discard_granularity", t.host.f2fs.discard_granularity == Some(0), "a run has one block"),
    ];
    if let Some((key, _, why)) = none.into_iter().find(|(_, is_none, _)| *is_none) {
        return Some(format!("{key} must be at least 1: {why}"));
    }
    let run = t.host.f2fs.discard_granularity;
    if let Some(run) = run.filter(|&blocks| blocks > LONGEST_RUN) {
        return Some(format!(
            "host.f2fs.discard_granularity is {run}: a segment, and so a run of free blocks, has at most {LONGEST_RUN}"
        ));
    }
    [
        ("host.cores", t.host.cores),
        ("host.vfs.flushers", t.host.vfs.flushers),
        ("host.bytefs.cpus", t.host.bytefs.cpus),
        ("host.ext4.cpus", t.host.ext4.cpus as usize),
        ("drive.firmware.cores", t.drive.firmware.cores),
    ]
    .into_iter()
    .find(|(_, n)| *n > MOST)
    .map(|(key, n)| format!("{key} is {n}: at most {MOST}"))
}

/// Processor times at the clock that the drive runs at.
fn scaled(t: &Testbed) -> Option<String> {
    let f = t.drive.at_clock().firmware;
    (f.command_cost.max(f.entry_cost) > LONGEST).then(|| {
        let (clock, rated) = (t.drive.firmware.clock_mhz, t.drive.firmware.rated_mhz);
        format!(
            "drive.firmware.clock_mhz is {clock} where times are those at {rated} MHz: a command would take longer than a \
             second"
        )
    })
}
