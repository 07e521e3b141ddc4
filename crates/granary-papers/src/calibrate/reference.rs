//! Isolated operations beside what was measured of Linux 6.1's ext4, F2FS and NILFS2 on a real block device:
//! the one place where these rows are written down.
//!
//! One operation and its fsync, warm cache (but for the cold reads), everything else synced, 8 GiB, default
//! options.

pub mod ext4;
pub mod f2fs;
pub mod nilfs2;

use comfy_table::Cell;
use granary_bench::columns::{grid, group, right};
use granary_bench::memory::{self, Limits};
use granary_device::{Drive, Port, Structure};
use granary_fs::{Cred, FileSystem, FsError, Result};
use granary_lab::LabError;
use granary_mssd::{DriveConfig, Mode};
use granary_sim::{World, sleep};
use granary_units::{Bytes, Nanos, PAGE_SIZE, Payload};
use granary_vfs::{Fd, OpenFlags, Posix, Process, Vfs, VfsConfig};
use std::sync::Arc;

const BLOCK: u64 = PAGE_SIZE as u64;

/// Counted quantities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Blocks of file data written.
    Data,
    /// Blocks written to the journal.
    Journal,
    /// All blocks written.
    All,
    /// All bytes written.
    Bytes,
    /// Blocks read.
    Reads,
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Part::Data => "data blocks",
            Part::Journal => "journal blocks",
            Part::All => "blocks written",
            Part::Bytes => "bytes written",
            Part::Reads => "blocks read",
        }
    }
}

/// One operation: what the kernel did and what we do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// File system.
    pub fs: &'static str,
    /// The operation.
    pub name: &'static str,
    /// Counts of each quantity: the kernel's, ours.
    pub parts: Vec<(Part, u64, u64)>,
    /// Flushes and FUA writes: the kernel's, ours.
    pub barriers: Option<[(u64, u64); 2]>,
}

impl Row {
    fn new(fs: &'static str, name: &'static str, parts: Vec<(Part, u64, u64)>) -> Row {
        Row { fs, name, parts, barriers: None }
    }

    /// Each count within 10 % of the kernel's, the waits for the drive's cache equal.
    pub fn is_within(&self) -> bool {
        self.parts.iter().all(|(_, kernel, ours)| ours.abs_diff(*kernel) * 10 <= *kernel)
            && self.barriers.is_none_or(|[kernel, ours]| kernel == ours)
    }
}

/// All rows of the reference.
///
/// # Errors
/// A file system failed.
pub fn rows() -> std::result::Result<Vec<Row>, LabError> {
    // Behind this the drives are made among calls of file systems, whose errors have no place for it.
    memory::ssd_fits("bytefs-emulator", &drive_config(), memory::Use::NEW, &Limits::here()?)?;
    let mut rows = ext4::rows()?;
    rows.extend(f2fs::rows()?);
    rows.extend(nilfs2::rows()?);
    Ok(rows)
}

/// The rows as a table.
pub fn table(rows: &[Row]) -> String {
    let header = ["fs", "operation + fsync, isolated", "counted", "kernel", "ours", "", "flush + FUA"];
    let mut t = grid(header.map(str::to_owned).to_vec());
    for r in rows {
        for (i, (part, kernel, ours)) in r.parts.iter().enumerate() {
            let first = i == 0;
            let name = |s: &str| Cell::new(if first { s } else { "" });
            let verdict = if ours.abs_diff(*kernel) * 10 <= *kernel { "ok" } else { "BEYOND 10 %" };
            let barriers = r.barriers.filter(|_| first).map_or(String::new(), |[k, o]| {
                let show = |(f, u): (u64, u64)| format!("{f} + {u}");
                if k == o { show(o) } else { format!("{} (kernel {})", show(o), show(k)) }
            });
            t.add_row([
                name(r.fs),
                name(r.name),
                Cell::new(part.name()),
                right(group(*kernel)),
                right(group(*ours)),
                Cell::new(verdict),
                Cell::new(barriers),
            ]);
        }
    }
    t.to_string()
}

/// A mounted file system whose operations are counted.
struct Bench {
    fs: &'static str,
    vfs: Arc<Vfs>,
    drive: Arc<dyn Drive>,
    p: Process,
    barriers: Box<dyn Fn() -> (u64, u64)>,
    rows: Vec<Row>,
}

/// The drive that was measured.
fn drive_config() -> DriveConfig {
    let mut config = DriveConfig::bytefs_emulator().with_mode(Mode::Cache);
    config.flash = config.flash.with_capacity(Bytes::gib(8));
    config
}

fn drive() -> Result<Port> {
    let drive = memory::ssd("bytefs-emulator", &drive_config(), memory::Use::NEW);
    let drive: Arc<dyn Drive> = Arc::new(drive.map_err(|e| FsError::Corrupt(e.to_string()))?);
    Ok(Port::new(drive))
}

fn in_world(
    fs: &str,
    main: impl FnOnce() -> Result<Vec<Row>> + 'static,
) -> std::result::Result<Vec<Row>, LabError> {
    let rows = World::default().run(main).map_err(|stop| LabError::run(fs, "reference", stop))?;
    // The file system itself has made any damage here: the check at the end, or a call before it, found it.
    rows.map_err(|e| {
        LabError::run(fs, if matches!(e, FsError::Corrupt(_)) { "check" } else { "reference" }, e)
    })
}

impl Bench {
    fn new(
        name: &'static str,
        port: Port,
        fs: Arc<dyn FileSystem>,
        barriers: impl Fn() -> (u64, u64) + 'static,
    ) -> Result<Bench> {
        let vfs = Vfs::mount(fs, VfsConfig::default())?;
        let p = Process::new(vfs.clone(), Cred::ROOT);
        let (drive, barriers) = (port.drive().clone(), Box::new(barriers));
        Ok(Bench { fs: name, vfs, drive, p, barriers, rows: Vec::new() })
    }

    /// Everything is on the drive, and the clock has left the last operation's tick.
    fn quiet(&mut self) -> Result<()> {
        self.p.sync()?;
        sleep(Nanos::from_millis(20));
        Ok(())
    }

    fn written(&self) -> u64 {
        self.drive.traffic().written()
    }

    fn row(
        &mut self,
        name: &'static str,
        kernel: &[(Part, u64)],
        barriers: (u64, u64),
        op: impl FnOnce(&mut Process) -> Result<()>,
    ) -> Result<()> {
        self.quiet()?;
        let (before, waited) = (self.drive.traffic(), (self.barriers)());
        op(&mut self.p)?;
        let moved = self.drive.traffic().since(&before);
        if moved.read() > 0 {
            return Err(FsError::Corrupt(format!("{name}: the cache was not warm")));
        }
        let now = (self.barriers)();
        let ours = |part| match part {
            Part::Data => moved.block_write[Structure::Data as usize] / BLOCK,
            Part::Journal => moved.block_write[Structure::Journal as usize] / BLOCK,
            Part::All => moved.written() / BLOCK,
            Part::Bytes => moved.written(),
            Part::Reads => moved.read() / BLOCK,
        };
        let parts = kernel.iter().map(|&(part, n)| (part, n, ours(part))).collect();
        let mut row = Row::new(self.fs, name, parts);
        row.barriers = Some([barriers, (now.0 - waited.0, now.1 - waited.1)]);
        self.rows.push(row);
        Ok(())
    }

    /// Blocks read by `op` right after the mount.
    fn cold_row(
        &mut self,
        name: &'static str,
        kernel: u64,
        op: impl FnOnce(&mut Process) -> Result<()>,
    ) -> Result<()> {
        let before = self.drive.traffic();
        op(&mut self.p)?;
        let ours = self.drive.traffic().since(&before).read() / BLOCK;
        self.rows.push(Row::new(self.fs, name, vec![(Part::Reads, kernel, ours)]));
        Ok(())
    }

    /// Checks, unmounts, and hands out the rows.
    fn finish(mut self) -> Result<Vec<Row>> {
        self.p.sync()?;
        if let Some(wrong) = self.vfs.check()?.into_iter().next() {
            return Err(FsError::Corrupt(wrong));
        }
        drop(self.p);
        self.vfs.unmount()?;
        Ok(self.rows)
    }
}

fn fill(word: u64, len: usize) -> Payload<'static> {
    Payload::Fill { word, len }
}

fn put(p: &mut Process, path: &str, len: usize) -> Result<Fd> {
    let fd = p.open(path, OpenFlags::CREAT | OpenFlags::RDWR, 0o644)?;
    p.pwrite(fd, fill(0x1234_5678_9abc_def0, len), 0)?;
    Ok(fd)
}

fn sync_dir(p: &mut Process, path: &str) -> Result<()> {
    let fd = p.open(path, OpenFlags::RDONLY | OpenFlags::DIRECTORY, 0)?;
    p.fsync(fd)?;
    p.close(fd)
}

fn open(p: &mut Process, path: &str) -> Result<Fd> {
    p.open(path, OpenFlags::RDWR, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_kernels_tables_is_matched() {
        let rows = rows().expect("runs");
        println!("{}", table(&rows));
        assert_eq!(rows.iter().filter(|r| r.fs == "ext4").count(), 19);
        assert_eq!(rows.iter().filter(|r| r.fs == "f2fs").count(), 18);
        assert_eq!(rows.iter().filter(|r| r.fs == "nilfs2").count(), 20);
        let beyond: Vec<&str> = rows.iter().filter(|r| !r.is_within()).map(|r| r.name).collect();
        assert!(beyond.is_empty(), "beyond 10 %: {beyond:?}");
    }

    #[test]
    fn a_row_beyond_ten_percent_is_not_within() {
        let row = |ours| Row::new("x", "y", vec![(Part::All, 20, ours)]);
        assert!(row(22).is_within() && row(18).is_within());
        assert!(!row(23).is_within() && !row(17).is_within());
        let late = Row { barriers: Some([(1, 1), (1, 0)]), ..row(20) };
        assert!(!late.is_within());
    }

    #[test]
    fn damage_is_a_finding_and_a_call_that_fails_is_not() {
        let ends = |e: FsError| in_world("ext4", || Err(e)).map(|_| ()).expect_err("it failed").is_finding();
        assert!(ends(FsError::Corrupt("a block has two owners".to_owned())));
        assert!(!ends(FsError::NoSpace));
    }
}
