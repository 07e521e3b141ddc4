//! NILFS2 of Linux 6.1, default options: blocks of the logs that an operation writes, as their summaries list
//! them.
//!
//! ```text
//!   summary | directory, data, nodes | ifile | cpfile | sufile | DAT | super root
//! ```

use super::{Bench, Part, Row, fill, in_world, open, put, sync_dir};
use granary_fs::Result;
use granary_lab::LabError;
use granary_nilfs2::{MkfsOptions, MountOptions};
use granary_sim::sleep;
use granary_units::Nanos;
use granary_vfs::{OpenFlags, Posix, Process};

/// Flushes of an fsync that writes a log, and of one that finds nothing to write.
const FLUSH: (u64, u64) = (1, 0);
const NOTHING: (u64, u64) = (0, 0);

/// As the measured one: two directories with some files in different blocks of the ifile, and some dozens of
/// checkpoints.
fn bench() -> Result<Bench> {
    let port = super::drive()?;
    granary_nilfs2::mkfs(&port, &MkfsOptions::default())?;
    let fs = granary_nilfs2::mount(port.clone(), &MountOptions::default())?;
    let stats = fs.clone();
    let mut t = Bench::new("nilfs2", port, fs, move || (stats.stats().flushes, 0))?;
    t.p.mkdir("/dir", 0o755)?;
    t.p.mkdir("/other", 0o755)?;
    for i in 0..70 {
        let fd = put(&mut t.p, &format!("/dir/f{i}"), 4096)?;
        if i % 2 == 0 {
            t.p.fsync(fd)?;
        }
        t.p.close(fd)?;
    }
    t.p.mkdir("/dir/empty", 0o755)?;
    tick(&mut t)?;
    Ok(t)
}

/// Lets a superblock's time go by and writes a log, so that no superblock is counted with what follows.
fn tick(t: &mut Bench) -> Result<()> {
    t.quiet()?;
    sleep(Nanos::from_secs(11));
    let fd = put(&mut t.p, "/other/tick", 100)?;
    t.p.fsync(fd)?;
    t.p.close(fd)
}

/// One row.
fn row(
    t: &mut Bench,
    name: &'static str,
    blocks: u64,
    op: impl FnOnce(&mut Process) -> Result<()>,
) -> Result<()> {
    tick(t)?;
    t.row(name, &[(Part::All, blocks)], if blocks == 0 { NOTHING } else { FLUSH }, op)
}

/// All rows.
pub fn rows() -> std::result::Result<Vec<Row>, LabError> {
    in_world("nilfs2", || {
        let mut t = bench()?;
        small_files(&mut t)?;
        names(&mut t)?;
        let mut rows = t.finish()?;
        // A file system of its own: which blocks of the DAT a file's are in depends on what was there before.
        let mut t = bench()?;
        large_file(&mut t)?;
        rows.extend(t.finish()?);
        Ok(rows)
    })
}

fn small_files(t: &mut Bench) -> Result<()> {
    for (name, path, len) in
        [("create 4 KB + fsync", "/dir/new", 4096), ("create 1 KB + fsync", "/dir/newer", 1024)]
    {
        // 17 to 19 were measured, by how many blocks of the DAT it touches.
        row(t, name, 18, |p| {
            let fd = put(p, path, len)?;
            p.fsync(fd)
        })?;
    }
    row(t, "create empty + fsync", 0, |p| {
        let fd = p.open("/dir/none", OpenFlags::CREAT | OpenFlags::RDWR, 0o644)?;
        p.fsync(fd)
    })?;
    row(t, "append 4 KB + fsync", 13, |p| {
        let fd = open(p, "/dir/f1")?;
        p.pwrite(fd, fill(1, 4096), 4096)?;
        p.fsync(fd)
    })?;
    row(t, "append 4 KB + fdatasync", 13, |p| {
        let fd = open(p, "/dir/f3")?;
        p.pwrite(fd, fill(1, 4096), 4096)?;
        p.fdatasync(fd)
    })?;
    row(t, "append 100 B + fsync", 13, |p| {
        let fd = open(p, "/dir/f5")?;
        p.pwrite(fd, fill(1, 100), 4096)?;
        p.fsync(fd)
    })?;
    row(t, "truncate 4 KB to 0 + fsync", 12, |p| {
        let fd = open(p, "/dir/f17")?;
        p.ftruncate(fd, 0)?;
        p.fsync(fd)
    })?;
    row(t, "chmod + fsync", 0, |p| {
        let fd = open(p, "/dir/f19")?;
        p.fchmod(fd, 0o600)?;
        p.fsync(fd)
    })?;
    row(t, "sync, nothing to do", 0, |p| p.sync())
}

fn names(t: &mut Bench) -> Result<()> {
    row(t, "mkdir + fsync(parent)", 18, |p| {
        p.mkdir("/dir/sub", 0o755)?;
        sync_dir(p, "/dir")
    })?;
    row(t, "rename in a directory + fsync", 15, |p| {
        p.rename("/dir/f7", "/dir/g7")?;
        sync_dir(p, "/dir")
    })?;
    row(t, "rename to another directory + fsync", 16, |p| {
        p.rename("/dir/f9", "/other/f9")?;
        sync_dir(p, "/other")
    })?;
    row(t, "rename over a file + fsync", 18, |p| {
        p.rename("/dir/f11", "/dir/f13")?;
        sync_dir(p, "/dir")
    })?;
    row(t, "unlink (4 KB file) + fsync(dir)", 17, |p| {
        p.unlink("/dir/f15")?;
        sync_dir(p, "/dir")
    })?;
    row(t, "rmdir + fsync(parent)", 16, |p| {
        p.rmdir("/dir/empty")?;
        sync_dir(p, "/dir")
    })
}

/// A file of 64 MB.
fn large_file(t: &mut Bench) -> Result<()> {
    let big = put(&mut t.p, "/dir/big", 64 << 20)?;
    row(t, "overwrite 4 KB + fsync", 16, |p| {
        p.pwrite(big, fill(2, 4096), 30 << 20)?;
        p.fsync(big)
    })?;
    row(t, "overwrite 64 KB + fsync", 32, |p| {
        p.pwrite(big, fill(3, 65_536), 40 << 20)?;
        p.fsync(big)
    })?;
    row(t, "overwrite 4 KB + fdatasync", 2, |p| {
        p.pwrite(big, fill(4, 4096), 20 << 20)?;
        p.fdatasync(big)
    })?;
    row(t, "overwrite 64 KB + fdatasync", 17, |p| {
        p.pwrite(big, fill(5, 65_536), 10 << 20)?;
        p.fdatasync(big)
    })?;
    row(t, "truncate 64 MB to 32 MB + fsync", 82, |p| {
        p.ftruncate(big, 32 << 20)?;
        p.fsync(big)
    })
}
