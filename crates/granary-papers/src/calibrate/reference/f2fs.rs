//! F2FS of Linux 6.1, default options.

use super::{Bench, Part, Row, fill, in_world, open, put, sync_dir};
use granary_f2fs::{MkfsOptions, MountOptions};
use granary_fs::Result;
use granary_lab::LabError;
use granary_sim::sleep;
use granary_units::Nanos;
use granary_vfs::{OpenFlags, Posix};

/// Flushes and FUA writes of an fsync of nodes, and of one that takes a checkpoint.
const FLUSH: (u64, u64) = (1, 0);
const CHECKPOINT: (u64, u64) = (1, 1);

/// A directory with some files, all in a checkpoint; one for large writes.
fn bench() -> Result<Bench> {
    let port = super::drive()?;
    granary_f2fs::mkfs(&port, &MkfsOptions::default())?;
    let fs = granary_f2fs::mount(port.clone(), &MountOptions::default())?;
    let stats = fs.clone();
    let mut t = Bench::new("f2fs", port, fs, move || (stats.stats().flushes, stats.stats().fua_writes))?;
    t.p.mkdir("/dir", 0o755)?;
    for i in 0..60 {
        let fd = put(&mut t.p, &format!("/dir/f{i}"), 4096)?;
        t.p.close(fd)?;
    }
    let big = put(&mut t.p, "/dir/big", 65536)?;
    t.p.close(big)?;
    t.p.mkdir("/dir/empty", 0o755)?;
    t.quiet()?;
    Ok(t)
}

/// All rows.
pub fn rows() -> std::result::Result<Vec<Row>, LabError> {
    in_world("f2fs", || {
        let mut t = bench()?;
        isolated(&mut t)?;
        let mut rows = t.finish()?;
        rows.push(tight_loop()?);
        Ok(rows)
    })
}

fn isolated(t: &mut Bench) -> Result<()> {
    t.row("create 4 KB + fsync", &[(Part::Bytes, 8192)], FLUSH, |p| {
        let fd = put(p, "/dir/a", 4096)?;
        p.fsync(fd)?;
        Ok(())
    })?;
    t.row("create 1 KB (inline) + fsync", &[(Part::Bytes, 4096)], FLUSH, |p| {
        let fd = put(p, "/dir/b", 1024)?;
        p.fsync(fd)?;
        Ok(())
    })?;
    t.row("create empty + fsync", &[(Part::Bytes, 4096)], FLUSH, |p| {
        let fd = p.open("/dir/c", OpenFlags::CREAT | OpenFlags::RDWR, 0o644)?;
        p.fsync(fd)?;
        Ok(())
    })?;
    t.row("chmod + fsync", &[(Part::Bytes, 4096)], FLUSH, |p| {
        let fd = open(p, "/dir/f9")?;
        p.fchmod(fd, 0o600)?;
        p.fsync(fd)?;
        Ok(())
    })?;
    t.row("truncate 4 KB to 0 + fsync", &[(Part::Bytes, 4096)], FLUSH, |p| {
        let fd = open(p, "/dir/f8")?;
        p.ftruncate(fd, 0)?;
        p.fsync(fd)?;
        Ok(())
    })?;
    t.row("append 4 KB + fsync", &[(Part::Bytes, 8192)], FLUSH, |p| {
        let fd = open(p, "/dir/f1")?;
        p.pwrite(fd, fill(1, 4096), 4096)?;
        p.fsync(fd)?;
        Ok(())
    })?;
    t.row("append 4 KB + fdatasync", &[(Part::Bytes, 8192)], FLUSH, |p| {
        let fd = open(p, "/dir/f2")?;
        p.pwrite(fd, fill(1, 4096), 4096)?;
        p.fdatasync(fd)?;
        Ok(())
    })?;
    t.row("append 100 B + fsync", &[(Part::Bytes, 8192)], FLUSH, |p| {
        let fd = open(p, "/dir/f3")?;
        p.pwrite(fd, fill(1, 100), 4096)?;
        p.fsync(fd)?;
        Ok(())
    })?;
    t.row("append 100 B + fdatasync", &[(Part::Bytes, 8192)], FLUSH, |p| {
        let fd = open(p, "/dir/f6")?;
        p.pwrite(fd, fill(1, 100), 4096)?;
        p.fdatasync(fd)?;
        Ok(())
    })?;
    t.row("overwrite 4 KB + fsync", &[(Part::Bytes, 8192)], FLUSH, |p| {
        let fd = open(p, "/dir/f4")?;
        p.pwrite(fd, fill(2, 4096), 0)?;
        p.fsync(fd)?;
        Ok(())
    })?;
    t.row("overwrite 4 KB + fdatasync", &[(Part::Bytes, 4096)], FLUSH, |p| {
        let fd = open(p, "/dir/f5")?;
        p.pwrite(fd, fill(2, 4096), 0)?;
        p.fdatasync(fd)?;
        Ok(())
    })?;
    t.row("overwrite 64 KB + fdatasync", &[(Part::Bytes, 65536)], FLUSH, |p| {
        let fd = open(p, "/dir/big")?;
        p.pwrite(fd, fill(2, 65536), 0)?;
        p.fdatasync(fd)?;
        Ok(())
    })?;
    t.row("mkdir + fsync(parent)", &[(Part::Bytes, 20480)], CHECKPOINT, |p| {
        p.mkdir("/dir/sub", 0o755)?;
        sync_dir(p, "/dir")?;
        Ok(())
    })?;
    t.row("unlink (4 KB file) + fsync(dir)", &[(Part::Bytes, 16384)], CHECKPOINT, |p| {
        p.unlink("/dir/f7")?;
        sync_dir(p, "/dir")?;
        Ok(())
    })?;
    t.row("rmdir + fsync(dir)", &[(Part::Bytes, 16384)], CHECKPOINT, |p| {
        p.rmdir("/dir/empty")?;
        sync_dir(p, "/dir")?;
        Ok(())
    })?;
    t.row("sync after create + 4 KB", &[(Part::Bytes, 32768)], CHECKPOINT, |p| {
        let fd = put(p, "/dir/s", 4096)?;
        p.close(fd)?;
        p.sync()?;
        Ok(())
    })?;
    t.row("sync, nothing to do", &[(Part::Bytes, 0)], (0, 0), |p| p.sync())?;
    Ok(())
}

/// "4,833 B on average in a tight loop": time stamps move once per tick (4 ms), so that most fsyncs of an
/// overwrite find the node unchanged.
fn tight_loop() -> Result<Row> {
    const N: u64 = 1000;
    let mut t = bench()?;
    let fd = open(&mut t.p, "/dir/f1")?;
    let before = t.written();
    for i in 0..N {
        t.p.pwrite(fd, fill(i, 4096), 0)?;
        t.p.fsync(fd)?;
        // The kernel's loop took about 0.7 ms a round on its disk.
        sleep(Nanos::from_micros(650));
    }
    let each = (t.written() - before) / N;
    t.finish()?;
    Ok(Row::new("f2fs", "overwrite 4 KB + fsync in a loop, each", vec![(Part::Bytes, 4833, each)]))
}
