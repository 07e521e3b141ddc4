//! Cost of the runner itself per operation: workloads on a file system that does nothing.
//!
//! Target: well below 300 ns per operation, since the simulated stack below takes a few microseconds.
//! Command: `cargo bench -p granary-workload`.
#![allow(missing_docs)] // criterion's macros

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use granary_fs::{Attr, Cred, FileKind, Ino, RenameFlags, Result, StatFs, Time};
use granary_sim::World;
use granary_units::{Dest, Payload};
use granary_vfs::{Access, Dirent, Fd, OpenFlags, Posix, SetTime, Stat, Whence};
use granary_workload::Workload;
use granary_workload::run::{Run, RunOptions};
use std::hint::black_box;
use std::time::Duration;

/// Every call succeeds at once; a file reads as 16 KiB, then its end.
#[derive(Default)]
struct Null {
    at_end: bool,
}

const FD: Fd = Fd(3);
const DIR: Stat = Stat {
    ino: Ino(1),
    attr: Attr {
        kind: FileKind::Dir,
        mode: 0o755,
        uid: 0,
        gid: 0,
        nlink: 2,
        size: 0,
        blocks: 0,
        atime: Time(0),
        mtime: Time(0),
        ctime: Time(0),
        rdev: 0,
        flags: 0,
    },
};

impl Posix for Null {
    fn open(&mut self, path: impl AsRef<[u8]>, _: OpenFlags, _: u16) -> Result<Fd> {
        black_box(path.as_ref());
        Ok(FD)
    }
    fn close(&mut self, _: Fd) -> Result<()> {
        Ok(())
    }
    fn read(&mut self, _: Fd, _: Dest<'_>) -> Result<usize> {
        self.at_end = !self.at_end;
        Ok(if self.at_end { 16_384 } else { 0 })
    }
    fn pread(&mut self, _: Fd, dest: Dest<'_>, _: u64) -> Result<usize> {
        Ok(dest.len())
    }
    fn write(&mut self, _: Fd, data: Payload<'_>) -> Result<usize> {
        Ok(data.len())
    }
    fn pwrite(&mut self, _: Fd, data: Payload<'_>, _: u64) -> Result<usize> {
        Ok(data.len())
    }
    fn lseek(&mut self, _: Fd, _: i64, _: Whence) -> Result<u64> {
        Ok(0)
    }
    fn ftruncate(&mut self, _: Fd, _: u64) -> Result<()> {
        Ok(())
    }
    fn fsync(&mut self, _: Fd) -> Result<()> {
        Ok(())
    }
    fn fdatasync(&mut self, _: Fd) -> Result<()> {
        Ok(())
    }
    fn sync(&mut self) -> Result<()> {
        Ok(())
    }
    fn stat(&mut self, path: impl AsRef<[u8]>) -> Result<Stat> {
        black_box(path.as_ref());
        Ok(DIR)
    }
    fn lstat(&mut self, _: impl AsRef<[u8]>) -> Result<Stat> {
        Err(granary_fs::FsError::NoEntry)
    }
    fn fstat(&mut self, _: Fd) -> Result<Stat> {
        Ok(DIR)
    }
    fn access(&mut self, _: impl AsRef<[u8]>, _: Access) -> Result<()> {
        Ok(())
    }
    fn chmod(&mut self, _: impl AsRef<[u8]>, _: u16) -> Result<()> {
        Ok(())
    }
    fn fchmod(&mut self, _: Fd, _: u16) -> Result<()> {
        Ok(())
    }
    fn chown(&mut self, _: impl AsRef<[u8]>, _: Option<u32>, _: Option<u32>) -> Result<()> {
        Ok(())
    }
    fn lchown(&mut self, _: impl AsRef<[u8]>, _: Option<u32>, _: Option<u32>) -> Result<()> {
        Ok(())
    }
    fn utimens(&mut self, _: impl AsRef<[u8]>, _: SetTime, _: SetTime) -> Result<()> {
        Ok(())
    }
    fn truncate(&mut self, _: impl AsRef<[u8]>, _: u64) -> Result<()> {
        Ok(())
    }
    fn mkdir(&mut self, _: impl AsRef<[u8]>, _: u16) -> Result<()> {
        Ok(())
    }
    fn mknod(&mut self, _: impl AsRef<[u8]>, _: FileKind, _: u16, _: u32) -> Result<()> {
        Ok(())
    }
    fn rmdir(&mut self, _: impl AsRef<[u8]>) -> Result<()> {
        Ok(())
    }
    fn unlink(&mut self, path: impl AsRef<[u8]>) -> Result<()> {
        black_box(path.as_ref());
        Ok(())
    }
    fn rename_with(&mut self, _: impl AsRef<[u8]>, _: impl AsRef<[u8]>, _: RenameFlags) -> Result<()> {
        Ok(())
    }
    fn link(&mut self, _: impl AsRef<[u8]>, _: impl AsRef<[u8]>) -> Result<()> {
        Ok(())
    }
    fn symlink(&mut self, _: impl AsRef<[u8]>, _: impl AsRef<[u8]>) -> Result<()> {
        Ok(())
    }
    fn readlink(&mut self, _: impl AsRef<[u8]>) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }
    fn readdir(&mut self, _: Fd, _: usize) -> Result<Vec<Dirent>> {
        Ok(Vec::new())
    }
    fn chdir(&mut self, _: impl AsRef<[u8]>) -> Result<()> {
        Ok(())
    }
    fn statfs(&mut self) -> Result<StatFs> {
        Err(granary_fs::FsError::NotSupported)
    }
    fn umask(&mut self, _: u16) -> u16 {
        0
    }
    fn set_cred(&mut self, _: Cred) {}
}

/// Runs the built-in workload on so many threads (one: no switches between them), with the files of `scale`,
/// to its full count of operations; the wall-clock time of the measured phase per operation.
#[allow(clippy::disallowed_methods)] // a benchmark measures real time
fn per_operation(name: &str, scale: f64, threads: u32) -> (Duration, u64) {
    let mut workload = Workload::from_builtin(name, &[]).expect("built in");
    let full = workload.processes.clone();
    workload.scale(scale).expect("a scale");
    workload.processes = full;
    workload.set_threads(threads).expect("a number of threads");
    let body = move || {
        let mut run = Run::new(&workload, |_: &str| Null::default(), RunOptions::default());
        run.setup().expect("nothing fails");
        let start = std::time::Instant::now();
        let outcome = run.measure().expect("nothing fails");
        (start.elapsed(), outcome.total_ops)
    };
    World::default().run(body).expect("no deadlock")
}

fn runner(c: &mut Criterion) {
    let mut group = c.benchmark_group("runner");
    group.sample_size(10);
    for (name, scale, threads) in
        [("varmail", 0.1, 12), ("webserver", 0.1, 12), ("delete", 1.0, 12), ("delete", 1.0, 1)]
    {
        group.throughput(Throughput::Elements(1));
        group.bench_function(format!("{name}, {threads} threads"), |b| {
            b.iter_custom(|n| {
                let (took, ops) = per_operation(name, scale, threads);
                Duration::from_secs_f64(took.as_secs_f64() / ops as f64 * n as f64)
            });
        });
    }
    group.finish();
}

criterion_group!(benches, runner);
criterion_main!(benches);
