//! Ranges of a testbed's numbers, beyond those that make no drive: with what is outside them a run does not
//! end, or measures nothing that there could be.
//!
//! A daemon that pauses for no time never lets the clock go on; one that pauses for a nanosecond, or a call
//! that takes years (in which daemons wake by the billion), comes to the same. A thousand times less than
//! what real systems have is allowed, so that any question can be asked of a model.

use crate::testbed::Testbed;
use granary_fs::entry::{MOST_CPUS, too_short};
use granary_mssd::DriveConfig;
use granary_units::Nanos;

/// Longest time that one thing takes. NAND has the same limit: an erase takes some ms.
const LONGEST: Nanos = Nanos(1_000_000_000);
/// Longest start of a drive: NVMe's CAP.TO allows no more than 127.5 s to get ready.
const LONGEST_START: Nanos = Nanos(127_500_000_000);

/// A value so far out of its range that the drive could not be asked about the rest: begins with the key's
/// whole path.
pub(super) fn before(t: &Testbed) -> Option<String> {
    let flash = &t.drive.as_ref()?.flash;
    let (stop, blocks) = (flash.gc_stop, flash.geometry.blocks_per_plane);
    (blocks > 0 && stop >= blocks)
        .then(|| format!("drive.flash.gc_stop is {stop}: a plane has {blocks} blocks (blocks_per_plane)"))
}

/// A value out of its range, of a testbed whose drive is good: begins with the key's whole path.
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
    let pauses = [("host.vfs.writeback_interval", t.host.vfs.writeback_interval)];
    too_short(&pauses).map(|(key, why)| format!("{key} {why}")).or_else(|| t.fs.refusal())
}

fn times(t: &Testbed) -> Option<String> {
    let c = &t.host.costs;
    let host = [
        ("host.costs.syscall", c.syscall),
        ("host.costs.library_call", c.library_call),
        ("host.costs.command_build", c.command_build),
        ("host.costs.doorbell", c.doorbell),
        ("host.costs.admission", c.admission),
        ("host.costs.completion", c.completion),
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
    ];
    too_long(&host).or_else(|| t.drive.as_ref().and_then(drive_times))
}

/// The first of these times that is too long.
fn too_long(times: &[(&str, Nanos)]) -> Option<String> {
    let (key, _) = times.iter().find(|(_, time)| *time > LONGEST)?;
    Some(format!("{key} is longer than a second; times are in nanoseconds"))
}

fn drive_times(drive: &DriveConfig) -> Option<String> {
    let (l, f, nand) = (&drive.link, &drive.firmware, &drive.flash.timing);
    let zero = [
        ("drive.flash.nand.read_ns", nand.read),
        ("drive.flash.nand.program_ns", nand.program),
        ("drive.flash.nand.erase_ns", nand.erase),
    ];
    if let Some((key, _)) = zero.into_iter().find(|(_, time)| time.0 == 0) {
        return Some(format!("{key} must be at least 1: no flash works in no time"));
    }
    let long = [
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
    too_long(&long).or_else(|| {
        (f.power_on > LONGEST_START).then(|| {
            format!("drive.firmware.power_on is longer than {LONGEST_START}; times are in nanoseconds")
        })
    })
}

fn counts(t: &Testbed) -> Option<String> {
    [
        ("host.cores", t.host.cores),
        ("host.vfs.flushers", t.host.vfs.flushers),
        ("drive.firmware.cores", t.drive.as_ref().map_or(1, |ssd| ssd.firmware.cores)),
        ("inside.cores", t.inside.as_ref().map_or(1, |inside| inside.cores)),
    ]
    .into_iter()
    .find(|(_, n)| *n > MOST_CPUS)
    .map(|(key, n)| format!("{key} is {n}: at most {MOST_CPUS}"))
}

/// Processor times at the clock that the drive runs at.
fn scaled(t: &Testbed) -> Option<String> {
    if let Some(inside) = &t.inside
        && (inside.cores == 0 || inside.clock_mhz == 0 || inside.host_clock_mhz == 0)
    {
        return Some("inside.cores, clock_mhz and host_clock_mhz must be at least 1".to_owned());
    }
    let drive = t.drive.as_ref()?;
    let f = drive.at_clock().firmware;
    (f.command_cost.max(f.entry_cost) > LONGEST).then(|| {
        let (clock, rated) = (drive.firmware.clock_mhz, drive.firmware.rated_mhz);
        format!(
            "drive.firmware.clock_mhz is {clock} where times are those at {rated} MHz: a command would take longer than a \
             second"
        )
    })
}
