//! Counters of a drive: [`DriveCounters`], and in it the bytes over the host link by direction, interface and
//! structure.
//!
//! ```text
//!   host ──link──> firmware ──────────────────────> flash
//!        LinkTraffic   LogCounters / CacheCounters    FlashCounters (granary-flash), by cause
//!        CommandCounters   BufferCounters
//! ```
//!
//! Everything counts up from the making of the drive; [`DriveCounters::since`] gives the counts in between.
//! Sums balance: see `Drive::check`.

use crate::structure::Structure;
use granary_flash::FlashCounters;
use granary_units::Nanos;
use serde::{Deserialize, Serialize};

/// Bytes over the host link since power-on. Block transfers count whole pages; byte transfers count whole
/// lines, because the link carries lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkTraffic {
    /// Byte interface, drive to host, by [`Structure`].
    pub byte_read: [u64; Structure::COUNT],
    /// Byte interface, host to drive.
    pub byte_write: [u64; Structure::COUNT],
    /// Block interface, drive to host.
    pub block_read: [u64; Structure::COUNT],
    /// Block interface, host to drive.
    pub block_write: [u64; Structure::COUNT],
}

impl LinkTraffic {
    /// The traffic since `earlier` was taken.
    pub fn since(&self, earlier: &LinkTraffic) -> LinkTraffic {
        let minus =
            |a: &[u64; Structure::COUNT], b: &[u64; Structure::COUNT]| std::array::from_fn(|i| a[i] - b[i]);
        LinkTraffic {
            byte_read: minus(&self.byte_read, &earlier.byte_read),
            byte_write: minus(&self.byte_write, &earlier.byte_write),
            block_read: minus(&self.block_read, &earlier.block_read),
            block_write: minus(&self.block_write, &earlier.block_write),
        }
    }

    /// Both together.
    pub fn plus(&self, more: &LinkTraffic) -> LinkTraffic {
        let sum =
            |a: &[u64; Structure::COUNT], b: &[u64; Structure::COUNT]| std::array::from_fn(|i| a[i] + b[i]);
        LinkTraffic {
            byte_read: sum(&self.byte_read, &more.byte_read),
            byte_write: sum(&self.byte_write, &more.byte_write),
            block_read: sum(&self.block_read, &more.block_read),
            block_write: sum(&self.block_write, &more.block_write),
        }
    }

    /// All bytes from drive to host.
    pub fn read(&self) -> u64 {
        self.byte_read.iter().chain(&self.block_read).sum()
    }

    /// All bytes from host to drive.
    pub fn written(&self) -> u64 {
        self.byte_write.iter().chain(&self.block_write).sum()
    }
}

/// Declares a struct of counters (`u64` or [`Nanos`]) that can be subtracted.
macro_rules! counters {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl $name {
            /// The counts since `earlier` was taken.
            pub fn since(&self, earlier: &$name) -> $name {
                $name { $($field: self.$field.saturating_sub(earlier.$field),)* }
            }

            /// Both together.
            pub fn plus(&self, more: &$name) -> $name {
                $name { $($field: self.$field + more.$field,)* }
            }
        }
    };
}

counters! {
    /// Calls that the drive served.
    CommandCounters {
        /// NVMe read commands.
        reads: u64,
        /// Pages that they asked for.
        read_pages: u64,
        /// NVMe write commands.
        writes: u64,
        /// Pages that they brought.
        write_pages: u64,
        /// FLUSH commands.
        flushes: u64,
        /// Pages trimmed.
        trim_pages: u64,
        /// COMMIT commands.
        commits: u64,
        /// RECOVER commands.
        recovers: u64,
        /// Loads through the byte window.
        loads: u64,
        /// Lines that they read.
        load_lines: u64,
        /// Stores through the byte window.
        stores: u64,
        /// Lines posted to the drive.
        posted_lines: u64,
        /// Posted lines that were not wholly written, so that the firmware had to merge them with their
        /// present content.
        merged_lines: u64,
        /// Write-verify reads.
        verifies: u64,
    }
}

counters! {
    /// The write log. Lines balance: `lines` = in the index + superseded + voided + cleaned + dropped + lost.
    LogCounters {
        /// Entries that the host's stores made.
        entries: u64,
        /// Lines in them.
        lines: u64,
        /// Lines of which a newer version came before they were cleaned (coalescing).
        lines_superseded: u64,
        /// Lines made void by a block write or trim of their page.
        lines_voided: u64,
        /// Lines merged into flash pages.
        lines_cleaned: u64,
        /// Lines that RECOVER dropped because their transaction never committed.
        lines_dropped: u64,
        /// Lines lost on their way when power failed.
        lines_lost: u64,
        /// Lines of flash pages that stayed unreadable: reading them is an error from then on. None of them
        /// was in the log.
        lines_given_up: u64,
        /// Block writes and trims of pages that the log held something of.
        pages_voided: u64,
        /// Lines found in the log by reads.
        line_hits: u64,
        /// Lines not found there by reads through the byte window.
        line_misses: u64,
        /// Transactions committed.
        commits: u64,
        /// Times the halves changed roles.
        cleanings: u64,
        /// Pages that cleaning wrote.
        pages_cleaned: u64,
        /// Pages that it read before, because of partial updates.
        pages_read: u64,
        /// Uncommitted entries moved to the other half.
        entries_migrated: u64,
        /// Times that the host waited for room in the log or the TxLog.
        stalls: u64,
        /// Time that it waited.
        stall_time: Nanos,
        /// RECOVER commands carried out.
        recoveries: u64,
        /// Entries that they scanned.
        recovery_entries: u64,
        /// Entries that they dropped.
        recovery_dropped: u64,
        /// Pages that they wrote.
        recovery_pages: u64,
        /// Time spent loading the DRAM content at power-up.
        load_time: Nanos,
        /// Time that RECOVER scanned.
        scan_time: Nanos,
        /// Time that RECOVER then took to write everything to flash.
        flush_time: Nanos,
    }
}

counters! {
    /// The page cache of cache mode.
    CacheCounters {
        /// Accesses (a page of a command, a load, a run of lines) served by the cache.
        hits: u64,
        /// Accesses whose page was not there.
        misses: u64,
        /// Pages fetched from flash.
        fetches: u64,
        /// Clean pages dropped for others.
        dropped: u64,
        /// Dirty pages written back.
        write_backs: u64,
        /// Lines that stores brought.
        lines: u64,
        /// Pages that became dirty; each is written back, forgotten or dirty still.
        dirtied: u64,
        /// Dirty pages whose content was no longer wanted.
        forgotten: u64,
    }
}

counters! {
    /// The write buffer. Pages balance: `pages` = programs issued + coalesced + trimmed + still waiting.
    BufferCounters {
        /// Pages put into the buffer.
        pages: u64,
        /// Pages given to the FTL.
        issued: u64,
        /// Pages replaced by newer content before their program was issued.
        coalesced: u64,
        /// Pages trimmed before their program was issued.
        trimmed: u64,
        /// Reads served by the buffer.
        hits: u64,
        /// Times that the buffer was full.
        stalls: u64,
        /// Time until it had room again.
        stall_time: Nanos,
    }
}

counters! {
    /// Byte-addressable metadata (PebbleSSD). Entries balance: `entries` = in the tables + `entries_reset`;
    /// names: `names` = in the table + `names_reset` + `names_ended`.
    BamCounters {
        /// FS_WRITE commands.
        fs_writes: u64,
        /// Entries appended.
        entries: u64,
        /// Entries that resets dropped, dead ones included.
        entries_reset: u64,
        /// REMAP commands.
        remaps: u64,
        /// Pages that they moved in the map.
        pages_remapped: u64,
        /// Pages that they had to copy, because the write log held lines of them.
        pages_copied: u64,
        /// REMAP keep commands.
        keeps: u64,
        /// Pages to which they gave a second name.
        names: u64,
        /// Second names that a reset ended.
        names_reset: u64,
        /// Second names that ended because one of the two was written, trimmed or moved.
        names_ended: u64,
        /// BAM_NAMES commands.
        name_reads: u64,
        /// BAM_RESET commands.
        resets: u64,
        /// BAM_READ commands.
        reads: u64,
        /// Entries that they gave to the host.
        entries_read: u64,
    }
}

counters! {
    /// Time that the drive's resources were reserved, summed over the units of each kind. Reservations ahead
    /// of now count already.
    BusyTime {
        /// Host link, drive to host.
        link_to_host: Nanos,
        /// Host link, host to drive.
        link_to_drive: Nanos,
        /// Firmware processors that serve commands.
        cores: Nanos,
        /// Channel buses.
        channels: Nanos,
        /// Flash planes.
        planes: Nanos,
    }
}

/// Everything a drive counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriveCounters {
    /// Bytes over the host link.
    pub link: LinkTraffic,
    /// Pages read and programmed at the flash, by cause.
    pub flash: FlashCounters,
    /// The write log (log mode).
    pub log: LogCounters,
    /// The page cache (cache mode).
    pub cache: CacheCounters,
    /// The write buffer.
    pub buffer: BufferCounters,
    /// Byte-addressable metadata.
    #[serde(default)]
    pub bam: BamCounters,
    /// Calls served.
    pub commands: CommandCounters,
    /// Time that its parts were reserved.
    #[serde(default)]
    pub busy: BusyTime,
}

impl DriveCounters {
    /// The counts since `earlier` was taken.
    pub fn since(&self, earlier: &DriveCounters) -> DriveCounters {
        DriveCounters {
            link: self.link.since(&earlier.link),
            flash: self.flash.since(&earlier.flash),
            log: self.log.since(&earlier.log),
            cache: self.cache.since(&earlier.cache),
            buffer: self.buffer.since(&earlier.buffer),
            bam: self.bam.since(&earlier.bam),
            commands: self.commands.since(&earlier.commands),
            busy: self.busy.since(&earlier.busy),
        }
    }

    /// Both together: a drive's life before and since it was opened.
    pub fn plus(&self, more: &DriveCounters) -> DriveCounters {
        DriveCounters {
            link: self.link.plus(&more.link),
            flash: self.flash.plus(&more.flash),
            log: self.log.plus(&more.log),
            cache: self.cache.plus(&more.cache),
            buffer: self.buffer.plus(&more.buffer),
            bam: self.bam.plus(&more.bam),
            commands: self.commands.plus(&more.commands),
            busy: self.busy.plus(&more.busy),
        }
    }
}
