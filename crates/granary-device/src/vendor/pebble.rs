//! Byte-addressable metadata: FS_WRITE, REMAP, BAM_RESET, BAM_READ (PebbleSSD Table 1, sections 4.2 and 5.2).

mod names;

use super::{Extension, Vendor};
use crate::drive::{Command, Drive, DriveError};
use crate::port::{Port, Ticket};
use crate::structure::Structure;
use granary_sim::HostCosts;
use granary_units::{Lpa, Nanos, PAGE_SIZE, Page};

/// The names of the commands.
pub const COMMANDS: &[&str] = &["FS_WRITE", "REMAP", "BAM_RESET", "BAM_READ", "REMAP keep", "BAM_NAMES"];

/// Of these, the ones that a drive without room for second names of pages has.
pub const NAMELESS: &[&str] = COMMANDS.split_at(4).0;

/// The command that gives pages second names.
pub const REMAP_KEEP: &str = COMMANDS[4];

/// Facts about the drive's tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Second names of pages that there is room for; 0: it has no [`REMAP_KEEP`].
    pub names: u64,
}

/// An entry of BAM: a page that FS_WRITE brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BamEntry {
    /// The file.
    pub ino: u64,
    /// Block of the file, in pages.
    pub offset: u32,
    /// Where the block is now.
    pub lpa: Lpa,
    /// How much of it is the file's. A drive without room for names ([`Facts::names`]) knows only
    /// [`FileEnd::WHOLE`].
    pub end: FileEnd,
}

/// How much of the last page of an FS_WRITE belongs to the file, so that its size can be known after a
/// failure. (The paper's fs_write names file and offset alone, PebbleSSD Table 1: append and fsync would have
/// to write the inode.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileEnd {
    /// Bytes of the last page that are the file's, 1 to 4096. Pages before it are the file's as a whole.
    pub valid: u16,
    /// The file became longer: it is at least as long as this page says.
    pub grew: bool,
}

impl FileEnd {
    /// A whole page of a file that has not grown.
    pub const WHOLE: FileEnd = FileEnd { valid: PAGE_SIZE as u16, grew: false };

    /// The end of page `at` of `pages` that one command brings, whose last page ends so.
    pub fn of_page(self, at: usize, pages: usize) -> FileEnd {
        if at + 1 == pages { self } else { FileEnd { valid: PAGE_SIZE as u16, ..self } }
    }
}

/// Pages that REMAP keep gives a second name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemapRange {
    /// First page.
    pub src: Lpa,
    /// Its second name.
    pub dst: Lpa,
    /// Number of pages.
    pub count: u64,
}

impl RemapRange {
    /// Ranges that a command carries at most: 16 B each in one page, as TRIM does (NVMe 1.4, section 6.7).
    pub const MOST: usize = 256;
    /// Pages that a command names at most: the drive keeps the changes for one command together until all are
    /// done.
    pub const MOST_PAGES: u64 = 1 << 16;
}

/// Two names of one page, as BAM keeps them for the host's recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BamName {
    /// The older name: it ends with the next BAM_RESET.
    pub src: Lpa,
    /// The newest name, which stays.
    pub dst: Lpa,
}

/// Writes pages that are blocks of a file, and appends one entry for each to the file's list in BAM
/// (section 4.2.2). Torn at page granularity if power fails before completion: each page with its entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FsWrite {
    /// First page.
    pub lpa: Lpa,
    /// The content.
    pub pages: Vec<Page>,
    /// The file.
    pub ino: u64,
    /// Block of the file that the first page is, in pages.
    pub offset: u32,
    /// How much of the last page is the file's.
    pub end: FileEnd,
    /// The structure that is being written.
    pub what: Structure,
}

/// Moves pages in the logical address space (section 4.2.1), as if all had been read, written to their new
/// place and then trimmed where they were and nothing else has come. The ranges may overlap. Atomic: if power
/// fails before completion, all pages have moved or none; durable at completion. BAM entries move along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remap {
    /// First page to be moved.
    pub src: Lpa,
    /// Where it goes.
    pub dst: Lpa,
    /// Number of pages.
    pub count: u64,
}

/// As if all pages had been read and written to their second names, and nothing else has come: `src` stays
/// ("copies the content of the mapping table entries", section 4.2.1). Ranges are carried out in their order,
/// each as a whole where it overlaps itself. Both names read the page until one is written or trimmed, which
/// ends that name only; BAM_RESET ends the older names, and only the newest stays. Chains are allowed. Atomic
/// and durable as [`Remap`]; entries of BAM go to the newest name. Refused as a whole
/// ([`DriveError::BamFull`]) where the names do not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemapKeep {
    /// At most [`RemapRange::MOST`].
    pub ranges: Vec<RemapRange>,
}

/// Empties BAM's file tables and ends the older names of pages that have two, after a checkpoint of the host
/// (section 5.2). A recovery first trims, of each pair that [`BamNames`] gives, the name that it does not
/// use. Then the other one stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BamReset;

/// Gives the pages with several names, a pair for each older name, in the order of the older names. For
/// recovery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BamNames {
    /// Receives the pairs.
    pub out: Vec<BamName>,
}

/// Gives the entries of a file, or of all files, in the order of their arrival. For recovery; of two entries
/// for one block of a file the later one is the newer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BamRead {
    /// The file; all where left out.
    pub ino: Option<u64>,
    /// Receives the entries.
    pub out: Vec<BamEntry>,
}

impl Vendor for FsWrite {
    fn name(&self) -> &'static str {
        "FS_WRITE"
    }

    fn host_cost(&self, costs: &HostCosts) -> Nanos {
        costs.bio_submit + costs.dma_map
    }

    fn writes(&self) -> Option<(Lpa, u64, Structure)> {
        Some((self.lpa, self.pages.len() as u64, self.what))
    }
}

impl Vendor for Remap {
    fn name(&self) -> &'static str {
        "REMAP"
    }

    fn host_cost(&self, costs: &HostCosts) -> Nanos {
        costs.bio_submit
    }
}

impl Vendor for RemapKeep {
    fn name(&self) -> &'static str {
        REMAP_KEEP
    }

    fn host_cost(&self, costs: &HostCosts) -> Nanos {
        costs.bio_submit
    }
}

// To the queue directly.
impl Vendor for BamReset {
    fn name(&self) -> &'static str {
        "BAM_RESET"
    }
}

impl Vendor for BamNames {
    fn name(&self) -> &'static str {
        "BAM_NAMES"
    }

    fn host_cost(&self, costs: &HostCosts) -> Nanos {
        costs.dma_map
    }
}

impl Vendor for BamRead {
    fn name(&self) -> &'static str {
        "BAM_READ"
    }

    fn host_cost(&self, costs: &HostCosts) -> Nanos {
        costs.dma_map
    }
}

/// Byte-addressable metadata of a drive.
#[derive(Clone, Copy)]
pub struct Bam<'p> {
    port: &'p Port,
}

impl<'p> Extension<'p> for Bam<'p> {
    const NAME: &'static str = "byte-addressable metadata (FS_WRITE, REMAP)";

    #[inline]
    fn of(port: &'p Port) -> Option<Bam<'p>> {
        port.offers(COMMANDS[0]).then_some(Bam { port })
    }
}

impl Bam<'_> {
    /// Starts writing blocks of a file, with their entries in BAM; `end` is of the last page.
    pub fn submit_fs_write(
        &self,
        lpa: Lpa,
        pages: &[Page],
        ino: u64,
        offset: u32,
        end: FileEnd,
        what: Structure,
    ) -> Result<Ticket, DriveError> {
        let max = self.port.info().max_transfer;
        let mut all = Ticket::NONE;
        for (i, part) in pages.chunks(max).enumerate() {
            let (lpa, offset) = (lpa.offset((i * max) as u64), offset + (i * max) as u32);
            let end = end.of_page(i * max + part.len() - 1, pages.len());
            let command = &mut FsWrite { lpa, pages: part.to_vec(), ino, offset, end, what };
            all = all.and(self.port.submit_vendor(command)?);
        }
        Ok(all)
    }

    /// Starts moving pages in the logical address space.
    pub fn submit_remap(&self, src: Lpa, dst: Lpa, count: u64) -> Result<Ticket, DriveError> {
        self.port.submit_vendor(&mut Remap { src, dst, count })
    }

    /// Starts giving pages second names, by as many commands as [`RemapRange::MOST`] ranges and
    /// [`RemapRange::MOST_PAGES`] pages ask for: each of them is carried out whole or not at all.
    ///
    /// # Errors
    /// [`DriveError::BamFull`] where the names do not fit: of the command that was refused nothing has
    /// changed.
    pub fn submit_remap_keep(&self, ranges: &[RemapRange]) -> Result<Ticket, DriveError> {
        let keep =
            |ranges: &[RemapRange]| self.port.submit_vendor(&mut RemapKeep { ranges: ranges.to_vec() });
        let (mut all, mut from, mut pages) = (Ticket::NONE, 0, 0);
        for (i, range) in ranges.iter().enumerate() {
            if i - from == RemapRange::MOST || (i > from && pages + range.count > RemapRange::MOST_PAGES) {
                all = all.and(keep(&ranges[from..i])?);
                (from, pages) = (i, 0);
            }
            pages += range.count;
        }
        if from < ranges.len() {
            all = all.and(keep(&ranges[from..])?);
        }
        Ok(all)
    }

    /// Whether a table of BAM is 90 % full, so that a checkpoint and a reset should come.
    pub fn reset_wanted(&self) -> bool {
        self.port.drive().wants_attention()
    }

    /// Pages that have several names: a pair for each older one.
    ///
    /// # Errors
    /// Of the drive, here and below.
    pub fn names(&self) -> Result<Vec<BamName>, DriveError> {
        let mut command = BamNames::default();
        let t = self.port.submit_vendor(&mut command)?;
        self.port.wait(t);
        Ok(command.out)
    }

    /// Empties BAM's tables.
    pub fn reset(&self) -> Result<(), DriveError> {
        let t = self.port.submit_vendor(&mut BamReset)?;
        self.port.wait(t);
        Ok(())
    }

    /// The entries of a file, or of all files, in the order of their arrival.
    pub fn read(&self, ino: Option<u64>) -> Result<Vec<BamEntry>, DriveError> {
        let mut command = BamRead { ino, out: Vec::new() };
        let t = self.port.submit_vendor(&mut command)?;
        self.port.wait(t);
        Ok(command.out)
    }
}

/// The answer to a command for recovery, given past any port: its result, and its completion instant.
type Given<T> = Result<(Vec<T>, Nanos), DriveError>;

impl BamRead {
    /// Asks a drive at `now`.
    ///
    /// # Errors
    /// As [`Drive::submit`].
    pub fn ask(drive: &dyn Drive, now: Nanos, ino: Option<u64>) -> Given<BamEntry> {
        let mut command = BamRead { ino, out: Vec::new() };
        let done = drive.submit(now, Command::Vendor(&mut command))?;
        Ok((command.out, done))
    }
}

impl BamNames {
    /// Asks a drive at `now`.
    ///
    /// # Errors
    /// As [`Drive::submit`].
    pub fn ask(drive: &dyn Drive, now: Nanos) -> Given<BamName> {
        let mut command = BamNames::default();
        let done = drive.submit(now, Command::Vendor(&mut command))?;
        Ok((command.out, done))
    }
}

#[cfg(test)]
mod tests {
    use super::super::transactions::{self, Commit, Recover};
    use super::*;

    fn fs_write() -> FsWrite {
        let (pages, end, what) = (vec![Page::ZERO; 3], FileEnd::WHOLE, Structure::Data);
        FsWrite { lpa: Lpa(7), pages, ino: 1, offset: 0, end, what }
    }

    /// Those with data need a request of the block layer and its mapping; BAM's tables are mapped for the
    /// host without a request.
    #[test]
    fn each_command_costs_the_host_its_way_and_has_its_name() {
        let costs = HostCosts { bio_submit: Nanos(3), dma_map: Nanos(50), ..HostCosts::ZERO };
        let remap = Remap { src: Lpa(0), dst: Lpa(1), count: 1 };
        let pebble: [(&dyn Vendor, u64); 6] = [
            (&fs_write(), 53),
            (&remap, 3),
            (&BamReset, 0),
            (&BamRead::default(), 50),
            (&RemapKeep { ranges: Vec::new() }, 3),
            (&BamNames::default(), 50),
        ];
        let own: [(&dyn Vendor, u64); 2] = [(&Commit { tx: granary_units::TxId(1) }, 0), (&Recover, 0)];
        for (commands, names) in [(&pebble[..], COMMANDS), (&own, transactions::COMMANDS)] {
            assert_eq!(commands.iter().map(|(command, _)| command.name()).collect::<Vec<_>>(), names);
            for (command, cost) in commands {
                assert_eq!(command.host_cost(&costs), Nanos(*cost), "{}", command.name());
            }
        }
    }

    #[test]
    fn only_fs_write_writes_pages() {
        assert_eq!(fs_write().writes(), Some((Lpa(7), 3, Structure::Data)));
        assert_eq!(Remap { src: Lpa(0), dst: Lpa(1), count: 1 }.writes(), None);
    }
}
