//! `granary calibrate ext4`: one load on the kernel's ext4 on an exported drive, and on granary-ext4; what
//! each moves.
//!
//! ```text
//!   this process                               granary export --loop --record (a child)
//!     mkfs.ext4, mount /dev/loopN
//!     load: set-up, sync    ── stat: calls recorded so far = start ──>
//!     load: run, sync       ── stat                        = end   ──>
//!     umount, granary umount                   record ends
//!     classify(record, start..end) | model(load) -> table
//! ```
//!
//! Both syncs of the kernel's side wait for the data first ([`KernelClient`]): how often Linux's sync commits
//! would be a matter of chance otherwise.
//!
//! Exit code 1 where the aims are missed: all bytes written within 10 %, each structure of weight within 20
//! %.

use crate::cli::{CalibrateArgs, DataArg};
use crate::cmd::live::Stats;
use crate::cmd::loopdev;
use crate::failure::Failure;
use granary_device::Structure;
use granary_lab::LabError;
use granary_mount::{DRIVE_FILE, STATS_FILE};
use granary_papers::calibrate::kernel::{MKFS, MOUNT, commits, journal_share};
use granary_papers::calibrate::{
    Edge, KernelClient, Load, SETS, Traffic, classify, judge, model, reference, table,
};
use granary_testbed::Testbed;
use granary_units::{Bytes, Nanos, PAGE_SIZE};
use rustix::mount::{UnmountFlags, unmount};
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Runs the command.
pub fn run(args: &CalibrateArgs) -> Result<ExitCode, Failure> {
    if args.reference {
        let rows = reference::rows()?;
        outln!("{}", reference::table(&rows));
        let good = rows.iter().all(reference::Row::is_within);
        return Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    if args.fs.as_deref() != Some("ext4") {
        return Err(Failure::usage(
            "only ext4 is calibrated on the kernel of this machine: say `granary calibrate ext4`, or --reference for the \
             measured rows of ext4 and F2FS",
        ));
    }
    let size: Bytes = args
        .size
        .parse()
        .map_err(|e| Failure::usage(format!("--size {}: {e}; write for example 8GiB", args.size)))?;
    has_such_a_drive(size)?;
    let loads: Vec<Load> = args.load.iter().map(|n| Load::new(n, args.scale)).collect::<Result<_, _>>()?;
    check()?;
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease")
        .map_err(|e| Failure::io("reading the release of Linux", e))?;
    let mut good = true;
    for load in &loads {
        say!("{}: granary-ext4", load.name);
        let ours = model(load, args.seed, size, args.data.mode(), journal_share(&release))?;
        say!("{}: the kernel's ext4", load.name);
        let kernel = Rig::new(size, args.data)?.measure(load, args.seed)?;
        let misses = judge(&kernel, &ours);
        if args.json {
            outln!("{}", json(load.name, args, &kernel, &ours, &misses));
        } else {
            outln!("{}", table(load.name, &kernel, &ours));
            misses.iter().for_each(|m| outln!("missed: {m}"));
        }
        good &= misses.is_empty();
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Refuses a size that the export's drive cannot have: the flash has its least number of blocks.
fn has_such_a_drive(size: Bytes) -> Result<(), Failure> {
    let testbed = Testbed::load("bytefs-emulator", &[])?;
    let ssd = testbed.ssd()?;
    let drive = |size| ssd.flash.with_capacity(size).capacity_pages() * PAGE_SIZE as u64;
    let least = Bytes(drive(Bytes(1)));
    if size < least {
        return Err(Failure::usage(format!(
            "--size {size}: the smallest drive of this testbed has {least}; take that or more"
        )));
    }
    Ok(())
}

fn json(load: &str, args: &CalibrateArgs, kernel: &Traffic, ours: &Traffic, misses: &[String]) -> String {
    let by = |bytes: &[u64; Structure::COUNT]| -> serde_json::Map<String, serde_json::Value> {
        Structure::ALL.iter().map(|s| (s.name().to_owned(), bytes[*s as usize].into())).collect()
    };
    let side = |t: &Traffic| {
        serde_json::json!({
            "write_bytes": by(&t.written), "read_bytes": by(&t.read), "unknown": t.unknown, "flushes": t.flushes,
            "commits": t.commits,
        })
    };
    let value = serde_json::json!({
        "load": load, "scale": args.scale, "seed": args.seed,
        "kernel": side(kernel), "ours": side(ours), "missed": misses,
    });
    value.to_string()
}

/// Checks first that all that the command needs is here.
fn check() -> Result<(), Failure> {
    if !rustix::process::geteuid().is_root() {
        return Err(Failure::usage(
            "mounting the kernel's ext4 needs root: run as root (--reference does not)",
        ));
    }
    if !Path::new("/dev/fuse").exists() {
        return Err(Failure::usage(
            "/dev/fuse does not exist: load the module (modprobe fuse), or in a container pass it",
        ));
    }
    loopdev::check()?;
    run_program(Command::new("mkfs.ext4").arg("-V")).map(drop)
}

/// Runs a program that must succeed; its standard output.
fn run_program(command: &mut Command) -> Result<String, Failure> {
    let name = command.get_program().to_string_lossy().into_owned();
    let out = command.output().map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => {
            Failure::usage(format!("{name} was not found: install it (mkfs.ext4: package e2fsprogs)"))
        }
        _ => Failure::io(&name, e),
    })?;
    if !out.status.success() {
        return Err(Failure::usage(format!("{name}: {}", String::from_utf8_lossy(&out.stderr).trim())));
    }
    Ok(String::from_utf8_lossy(&out.stdout).trim().to_owned())
}

/// Lets time pass, `least` and until time stamps of files move: they are those of the coarse clock, which
/// moves once in a tick of the kernel's, 1 to 10 ms, later where the machine is busy. (From 6.13 on they are
/// at most the time of day, where somebody has asked for them in between.)
fn pass(least: Nanos) {
    let of = |t: Timespec| (t.tv_sec, t.tv_nsec);
    let before = of(clock_gettime(ClockId::Realtime));
    #[allow(clippy::disallowed_methods)] // the kernel's clock is the machine's
    let sleep = |t: Nanos| std::thread::sleep(std::time::Duration::from_nanos(t.0));
    sleep(least);
    for _ in 0..MOST_WAITS {
        if of(clock_gettime(ClockId::RealtimeCoarse)) > before {
            break;
        }
        sleep(Nanos::from_millis(1));
    }
}

/// Milliseconds that [`pass`] waits at most: a clock that was set back does not hang the run.
const MOST_WAITS: u32 = 1000;

/// An exported drive with the kernel's ext4 mounted on it; dropped, it is taken apart.
struct Rig {
    dir: PathBuf,
    device: String,
    exported: bool,
    mounted: bool,
}

impl Rig {
    fn new(size: Bytes, data: DataArg) -> Result<Rig, Failure> {
        let dir = std::env::temp_dir().join(format!("granary-calibrate-{}", std::process::id()));
        let io = |e| Failure::io(dir.display(), e);
        for part in ["drive", "mnt"] {
            std::fs::create_dir_all(dir.join(part)).map_err(io)?;
        }
        let mut rig = Rig { dir, device: String::new(), exported: false, mounted: false };
        let me = std::env::current_exe().map_err(|e| Failure::io("finding this program", e))?;
        let mut export = Command::new(me);
        export.args(["export", "--daemon", "--loop", "--size", &size.0.to_string()]);
        export.args(SETS.iter().flat_map(|set| ["--set", set])).arg("--record");
        run_program(export.arg(rig.dir.join("record")).arg("ram:").arg(rig.dir.join("drive")))?;
        rig.exported = true;
        let file = rig.dir.join("drive").join(DRIVE_FILE);
        let device =
            run_program(Command::new("losetup").args(["--noheadings", "--output", "NAME", "-j"]).arg(file))?;
        run_program(Command::new("mkfs.ext4").args(MKFS).arg(&device))?;
        let options = format!("{MOUNT},data={}", data.option());
        run_program(
            Command::new("mount").args(["-t", "ext4", "-o", &options, &device]).arg(rig.dir.join("mnt")),
        )?;
        rig.mounted = true;
        rig.device = device;
        Ok(rig)
    }

    /// Calls of the drive that the record has.
    fn recorded(&self) -> Result<u64, LabError> {
        let file = self.dir.join("drive").join(STATS_FILE);
        let text = std::fs::read_to_string(&file)
            .map_err(|source| LabError::Io { what: format!("reading {}", file.display()), source })?;
        let stats: Option<Stats> = serde_json::from_str(&text).ok();
        stats.and_then(|s| s.recorded).ok_or_else(|| LabError::Usage("the export does not record".to_owned()))
    }

    fn measure(mut self, load: &Load, seed: u64) -> Result<Traffic, Failure> {
        let root = self.dir.join("mnt");
        let clients = |_: &str| KernelClient::new(&root);
        let mut edges = [(0, 0); 2];
        load.run(clients, seed, &pass, &mut |edge| {
            edges[usize::from(edge == Edge::End)] = (self.recorded()?, commits(&self.device)?);
            Ok(())
        })?;
        self.end()?;
        let [from, to] = edges;
        let traffic = classify(&self.dir.join("record"), from.0..to.0)?;
        Ok(Traffic { commits: to.1.saturating_sub(from.1), ..traffic })
    }

    /// Unmounts both: the record is whole then.
    fn end(&mut self) -> Result<(), Failure> {
        if std::mem::take(&mut self.mounted) {
            unmount(self.dir.join("mnt"), UnmountFlags::empty())
                .map_err(|e| Failure::io("unmounting the kernel's ext4", e.into()))?;
        }
        if std::mem::take(&mut self.exported) {
            let me = std::env::current_exe().map_err(|e| Failure::io("finding this program", e))?;
            run_program(Command::new(me).arg("umount").arg(self.dir.join("drive")))?;
        }
        Ok(())
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if self.mounted {
            let _ = unmount(self.dir.join("mnt"), UnmountFlags::DETACH);
            self.mounted = false;
        }
        let _ = self.end();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn between_two_writes_time_stamps_move() {
        let dir = tempfile::tempdir().expect("a directory");
        // Each its own file, looked at in the end: where a stamp was looked at, the next is of a finer clock.
        let files: Vec<PathBuf> = (0..20).map(|n: u32| dir.path().join(n.to_string())).collect();
        for file in &files {
            std::fs::write(file, b"x").expect("write");
            pass(Nanos(0));
        }
        let stamp = |f: &PathBuf| std::fs::metadata(f).map(|m| (m.mtime(), m.mtime_nsec())).expect("stat");
        assert!(files.windows(2).all(|two| stamp(&two[0]) < stamp(&two[1])));
    }

    #[test]
    fn a_size_that_no_drive_of_the_testbed_has_is_refused_with_the_least() {
        let told = has_such_a_drive(Bytes::mib(1)).expect_err("refused").to_string();
        assert!(told.contains("--size 1MiB") && told.contains("smallest drive"), "{told}");
        has_such_a_drive(Bytes::gib(8)).expect("the default");
    }
}
