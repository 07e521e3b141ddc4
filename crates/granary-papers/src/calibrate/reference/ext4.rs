//! ext4 of Linux 6.1 in ordered mode, default options.

use super::{Bench, Part, Row, fill, in_world, open, put, sync_dir};
use granary_device::Port;
use granary_ext4::{MkfsOptions, MountOptions};
use granary_fs::Result;
use granary_lab::LabError;
use granary_units::Dest;
use granary_vfs::{OpenFlags, Posix, Process};

/// Flushes and FUA writes of an fsync that commits, and of one that finds nothing to commit.
const COMMIT: (u64, u64) = (1, 1);
const FLUSH: (u64, u64) = (1, 0);

fn bench(port: Port) -> Result<Bench> {
    let fs = granary_ext4::mount(port.clone(), &MountOptions::default())?;
    let stats = fs.clone();
    Bench::new("ext4", port, fs, move || (stats.journal_stats().flushes, stats.journal_stats().fua_writes))
}

/// All rows.
pub fn rows() -> std::result::Result<Vec<Row>, LabError> {
    in_world("ext4", || {
        let port = super::drive()?;
        granary_ext4::mkfs(&port, &MkfsOptions::default())?;
        let mut t = bench(port)?;
        warm(&mut t)?;
        let mut rows = t.finish()?;
        rows.extend(cold()?);
        Ok(rows)
    })
}

fn warm(t: &mut Bench) -> Result<()> {
    t.p.mkdir("/dir", 0o755)?;
    for i in 0..100 {
        let fd = put(&mut t.p, &format!("/dir/f{i}"), 4096)?;
        t.p.close(fd)?;
    }
    let big = put(&mut t.p, "/dir/big", 65536)?;
    t.p.close(big)?;
    // The first commit after mount also writes the journal's superblock.
    t.quiet()?;
    t.row("create 4 KB + fsync", &[(Part::Data, 1), (Part::Journal, 8), (Part::All, 9)], COMMIT, |p| {
        let fd = put(p, "/dir/a", 4096)?;
        p.fsync(fd)?;
        Ok(())
    })?;
    t.row("create 1 KB + fsync", &[(Part::Data, 1), (Part::Journal, 8), (Part::All, 9)], COMMIT, |p| {
        let fd = put(p, "/dir/b", 1024)?;
        p.fsync(fd)?;
        Ok(())
    })?;
    t.row("create empty + fsync", &[(Part::Data, 0), (Part::Journal, 7), (Part::All, 7)], COMMIT, |p| {
        let fd = p.open("/dir/c", OpenFlags::CREAT | OpenFlags::RDWR, 0o644)?;
        p.fsync(fd)?;
        Ok(())
    })?;
    t.row("append 4 KB + fsync", &[(Part::Data, 1), (Part::Journal, 5), (Part::All, 6)], COMMIT, |p| {
        let fd = open(p, "/dir/f1")?;
        p.pwrite(fd, fill(1, 4096), 4096)?;
        p.fsync(fd)?;
        Ok(())
    })?;
    t.row("append 4 KB + fdatasync", &[(Part::Data, 1), (Part::Journal, 5), (Part::All, 6)], COMMIT, |p| {
        let fd = open(p, "/dir/f2")?;
        p.pwrite(fd, fill(1, 4096), 4096)?;
        p.fdatasync(fd)?;
        Ok(())
    })?;
    t.row("append 100 B + fsync", &[(Part::Data, 1), (Part::Journal, 5), (Part::All, 6)], COMMIT, |p| {
        let fd = open(p, "/dir/f3")?;
        p.pwrite(fd, fill(1, 100), 4096)?;
        p.fsync(fd)?;
        Ok(())
    })?;
    t.row("overwrite 4 KB + fsync", &[(Part::Data, 1), (Part::Journal, 3), (Part::All, 4)], COMMIT, |p| {
        let fd = open(p, "/dir/f4")?;
        p.pwrite(fd, fill(2, 4096), 0)?;
        p.fsync(fd)?;
        Ok(())
    })?;
    t.row(
        "overwrite 4 KB + fdatasync",
        &[(Part::Data, 1), (Part::Journal, 0), (Part::All, 1)],
        FLUSH,
        |p| {
            let fd = open(p, "/dir/f5")?;
            p.pwrite(fd, fill(2, 4096), 0)?;
            p.fdatasync(fd)?;
            Ok(())
        },
    )?;
    t.row(
        "overwrite 64 KB + fdatasync",
        &[(Part::Data, 16), (Part::Journal, 0), (Part::All, 16)],
        FLUSH,
        |p| {
            let fd = open(p, "/dir/big")?;
            p.pwrite(fd, fill(2, 65536), 0)?;
            p.fdatasync(fd)?;
            Ok(())
        },
    )?;
    t.row("mkdir + fsync(parent)", &[(Part::Data, 0), (Part::Journal, 9), (Part::All, 9)], COMMIT, |p| {
        p.mkdir("/dir/sub", 0o755)?;
        sync_dir(p, "/dir")?;
        Ok(())
    })?;
    t.row(
        "rename in a directory + fsync",
        &[(Part::Data, 0), (Part::Journal, 5), (Part::All, 5)],
        COMMIT,
        |p| {
            p.rename("/dir/f20", "/dir/g20")?;
            sync_dir(p, "/dir")?;
            Ok(())
        },
    )?;
    t.row(
        "rename over a file + fsync",
        &[(Part::Data, 0), (Part::Journal, 11), (Part::All, 11)],
        COMMIT,
        |p| {
            p.rename("/dir/f30", "/dir/f60")?;
            sync_dir(p, "/dir")?;
            Ok(())
        },
    )?;
    t.row(
        "unlink (4 KB file) + fsync",
        &[(Part::Data, 0), (Part::Journal, 9), (Part::All, 9)],
        COMMIT,
        |p| {
            p.unlink("/dir/f70")?;
            sync_dir(p, "/dir")?;
            Ok(())
        },
    )?;
    t.row(
        "truncate 4 KB to 0 + fsync",
        &[(Part::Data, 0), (Part::Journal, 6), (Part::All, 6)],
        COMMIT,
        |p| {
            let fd = open(p, "/dir/f80")?;
            p.ftruncate(fd, 0)?;
            p.fsync(fd)?;
            Ok(())
        },
    )?;
    t.row("chmod + fsync", &[(Part::Data, 0), (Part::Journal, 3), (Part::All, 3)], COMMIT, |p| {
        let fd = open(p, "/dir/f90")?;
        p.fchmod(fd, 0o600)?;
        p.fsync(fd)?;
        Ok(())
    })?;
    t.row(
        "sync after create + 4 KB",
        &[(Part::Data, 1), (Part::Journal, 8), (Part::All, 15)],
        COMMIT,
        |p| {
            let fd = put(p, "/dir/s", 4096)?;
            p.close(fd)?;
            p.sync()?;
            Ok(())
        },
    )?;
    t.row(
        "overwrite + fdatasync in one tick",
        &[(Part::Data, 1), (Part::Journal, 0), (Part::All, 1)],
        FLUSH,
        |p| {
            let fd = open(p, "/dir/f5")?;
            p.pwrite(fd, fill(3, 4096), 0)?;
            p.fdatasync(fd)?;
            Ok(())
        },
    )?;
    Ok(())
}

/// Blocks read from a cold cache: 34 for a stat (2 directory blocks and 32 of the inode table), 37 for open
/// and read.
fn cold() -> Result<Vec<Row>> {
    let port = super::drive()?;
    granary_ext4::mkfs(&port, &MkfsOptions::default())?;
    let mut t = bench(port.clone())?;
    t.p.mkdir("/dir", 0o755)?;
    // Inodes behind those of the directory that is looked at fill the inode table.
    t.p.mkdir("/dir/many", 0o755)?;
    for i in 0..100 {
        let fd = put(&mut t.p, &format!("/dir/f{i}"), 4096)?;
        t.p.close(fd)?;
    }
    for i in 0..500 {
        let fd = put(&mut t.p, &format!("/dir/many/f{i}"), 1)?;
        t.p.close(fd)?;
    }
    t.finish()?;
    let mut rows = Vec::new();
    let mut row = |name: &'static str, kernel: u64, op: fn(&mut Process) -> Result<()>| -> Result<()> {
        let mut t = bench(port.clone())?;
        t.cold_row(name, kernel, op)?;
        rows.extend(t.finish()?);
        Ok(())
    };
    row("stat 1 file, cold cache", 34, |p| p.stat("/dir/f50").map(drop))?;
    row("open + read 4 KB, cold cache", 37, |p| {
        let fd = p.open("/dir/f50", OpenFlags::RDONLY, 0)?;
        p.read(fd, Dest::Discard(4096))?;
        p.close(fd)
    })?;
    Ok(rows)
}
