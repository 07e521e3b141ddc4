//! `granary mount IMAGE|ram:FS DIR`: a file system for programs, until it is unmounted or told to stop.
//!
//! ```text
//!   --daemon:  parent ── starts itself with --background ──> child: opens, recovers, mounts
//!                 | reads stdout <────────── "mounted ..." ──|  (or ends: its message and exit code are the parent's)
//!                 └ exits 0                                  └ serves on, messages to --log
//!   SIGINT, SIGTERM:  unmount; in use: detach and wait; again: write everything back and stop
//! ```

use crate::cli::mount::{MountArgs, Pace, Survives};
use crate::cmd::live::Live;
use crate::failure::Failure;
use granary_lab::image::OpenImage;
use granary_lab::registry;
use granary_lab::testbed::{Host, Testbed};
use granary_mount::{MountError, Mounted, Options, host_config};
use granary_mssd::image::{Durability, Image};
use granary_mssd::{Drive, Mode, Mssd, Port};
use granary_sim::wall::{Pacing, set_pacing};
use granary_units::{Bytes, PAGE_SIZE};
use granary_vfs::Vfs;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::fs::OpenOptions;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

/// Runs the command.
pub fn run(args: &MountArgs) -> Result<(), Failure> {
    if args.daemon { start_daemon(args) } else { serve(args) }
}

/// A file system that is ready to be mounted, and what lies under it.
struct Opened {
    vfs: Arc<Vfs>,
    drive: Arc<dyn Drive>,
    image: Option<Arc<Image>>,
    fs: &'static str,
    /// What was recovered and how long it took.
    told: String,
}

fn serve(args: &MountArgs) -> Result<(), Failure> {
    let mut args = args.clone();
    if !args.image.starts_with("ram:") {
        // A daemon leaves its working directory.
        args.image = std::path::absolute(&args.image)
            .map_err(|e| Failure::io(args.image.clone(), e))?
            .to_string_lossy()
            .into_owned();
    }
    let pacing = match args.pace {
        Pace::Off => Pacing::Off,
        Pace::On => Pacing::On { dilation: args.dilate },
    };
    // First: an image need not be opened, and recovered, for nothing.
    granary_mount::check(&args.dir)?;
    let opened = open(&args)?;
    // Recovery was not paced: its modelled time is told, nobody has to wait for it.
    set_pacing(pacing);
    let mounted = granary_mount::mount(opened.vfs.clone(), &args.dir, &options(&args, &opened));
    let mounted = match mounted {
        Ok(mounted) => mounted,
        Err(e) => {
            // The image is left as clean as it was found. Why it is not mounted matters more than what fails now.
            let Opened { vfs, image, drive, .. } = opened;
            let _ = vfs.unmount();
            drop((vfs, drive));
            let _ = image.and_then(Arc::into_inner).map(Image::close);
            return Err(e.into());
        }
    };
    let line = format!("{} is mounted on {}: {}", args.image, mounted.dir().display(), opened.told);
    if args.background {
        hand_over(&args, &line)?;
    } else {
        eprintln!("{line}; unmount with `granary umount {}` or Ctrl-C", mounted.dir().display());
    }
    die_on_panic();
    let Opened { vfs, image, drive, .. } = opened;
    watch_signals(&mounted, vfs)?;
    let ended = mounted.join();
    drop(drive);
    if let Some(image) = image.and_then(Arc::into_inner) {
        image.close()?;
    }
    ended.map_err(Failure::from)
}

fn options(args: &MountArgs, opened: &Opened) -> Options {
    let live = Live::new(args, opened.fs, opened.vfs.clone(), opened.drive.clone(), opened.image.clone());
    let barrier = opened.image.clone().filter(|_| args.durability == Survives::Machine);
    Options {
        read_only: args.read_only,
        allow_other: args.allow_other,
        xattrs: args.xattrs,
        threads: usize::from(args.threads),
        source: args.image.clone(),
        durable: barrier.map(|image| -> granary_mount::DurableHook {
            Arc::new(move || image.barrier().map_err(|e| io::Error::other(e.to_string())))
        }),
        stats: Some(Arc::new(move |operations| live.json(operations))),
    }
}

fn open(args: &MountArgs) -> Result<Opened, Failure> {
    match args.image.strip_prefix("ram:") {
        Some(fs) => open_ram(args, fs),
        None => open_image(args),
    }
}

/// A new file system on a drive in memory; it ends with the mount.
fn open_ram(args: &MountArgs, fs: &str) -> Result<Opened, Failure> {
    let entry = registry::find(fs)?;
    let testbed = Testbed::load(&args.testbed, &args.set)?;
    let mode = if entry.write_log { Mode::Log } else { Mode::Cache };
    let mut config = testbed.drive.clone().with_mode(mode);
    config.flash = config.flash.with_capacity(args.size);
    let drive: Arc<dyn Drive> = Arc::new(Mssd::new(&config).map_err(|e| Failure::usage(e.to_string()))?);
    let port = Port::new(drive.clone());
    (entry.mkfs)(&port)?;
    let vfs = mount_on(args, port, entry, &testbed.host)?;
    let told = format!("a new {fs} in memory, {}, gone when it is unmounted", args.size);
    Ok(Opened { vfs, drive, image: None, fs: entry.name, told })
}

fn open_image(args: &MountArgs) -> Result<Opened, Failure> {
    #[allow(clippy::disallowed_methods)] // what the person at the terminal waits for
    let start = Instant::now();
    let durability = match args.durability {
        Survives::Process => Durability::Process,
        Survives::Machine => Durability::Machine,
    };
    let mut open = OpenImage::open(Path::new(&args.image), durability, args.read_only)?;
    if !args.set.is_empty() {
        open.host = Testbed::load(&open.image.meta().testbed, &args.set)?.host;
    }
    let before = open.drive.counters();
    let vfs = mount_on(args, open.port(), open.entry, &open.host)?;
    let OpenImage { image, drive, entry, .. } = open;
    let after = drive.counters().since(&before);
    let mut told = format!("{}, {}", entry.name, Bytes(drive.info().pages * PAGE_SIZE as u64));
    match image.replayed() {
        None => told += ", closed cleanly",
        Some(r) => {
            told += &format!(", recovered after an unclean stop: {} groups of changes", r.groups);
            told += &format!(" ({}) from the redo log", Bytes(r.bytes));
            let (log, journal) =
                (after.log, after.link.block_read[granary_mssd::Structure::Journal as usize]);
            if log.recovery_entries > 0 {
                told += &format!(
                    ", {} log entries scanned, {} of open transactions dropped, {} pages written",
                    log.recovery_entries, log.recovery_dropped, log.recovery_pages
                );
            }
            if journal > 0 {
                told += &format!(", {} of the journal read", Bytes(journal));
            }
        }
    }
    told += &format!(", in {:.0} ms", start.elapsed().as_secs_f64() * 1e3);
    Ok(Opened { vfs, drive, image: Some(Arc::new(image)), fs: entry.name, told })
}

fn mount_on(
    args: &MountArgs,
    port: Port,
    entry: &registry::FsEntry,
    host: &Host,
) -> Result<Arc<Vfs>, Failure> {
    // The testbed's host has its own memory; this one lends what the arguments say.
    let host = Host { metadata_cache: Bytes(host.metadata_cache.0.min(args.page_cache.0)), ..host.clone() };
    let fs = (entry.mount)(port, &host)?;
    Ok(Vfs::mount(fs, host_config(host.vfs, args.page_cache, args.read_only))?)
}

/// A broken invariant must not leave programs waiting for replies: the process ends, the kernel tells them, and what
/// was promised is in the image.
fn die_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        report(info);
        std::process::abort();
    }));
}

fn watch_signals(mounted: &Mounted, vfs: Arc<Vfs>) -> Result<(), Failure> {
    let mut signals =
        Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(|e| Failure::io("watching for signals", e))?;
    let unmounter = mounted.unmounter();
    granary_sim::spawn("signals", move || {
        let mut asked = false;
        for _ in signals.forever() {
            if asked {
                let synced = vfs.sync();
                say(&match synced {
                    Ok(()) => "stopped; everything was written back".to_owned(),
                    Err(e) => format!("stopped; writing back failed: {e}"),
                });
                std::process::exit(1);
            }
            asked = true;
            match unmounter.unmount(false) {
                Ok(()) => {}
                Err(MountError::InUse(dir)) => {
                    say(&format!(
                        "{} is in use: detached, ends when the last program lets go of it; signal again to stop now",
                        dir.display()
                    ));
                    if let Err(e) = unmounter.unmount(true) {
                        say(&e.to_string());
                    }
                }
                Err(e) => say(&e.to_string()),
            }
        }
    });
    Ok(())
}

/// A message for people; a daemon whose log has gone must not fail over it.
fn say(line: &str) {
    let _ = writeln!(io::stderr(), "granary: {line}");
}

/// Starts this program again as the one that serves, and waits for its word.
fn start_daemon(args: &MountArgs) -> Result<(), Failure> {
    let me = std::env::current_exe().map_err(|e| Failure::io("finding this program", e))?;
    let rest = std::env::args_os().skip(1).filter(|a| a != "--daemon");
    let mut child = Command::new(me)
        .args(rest)
        .arg("--background")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(|e| Failure::io("starting the background process", e))?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let mut line = String::new();
    if let Some(out) = out {
        BufReader::new(out).read_line(&mut line).map_err(|e| Failure::io("waiting for the mount", e))?;
    }
    if let Some(told) = line.strip_prefix("mounted ") {
        eprintln!("{}", told.trim_end());
        return Ok(());
    }
    let mut message = String::new();
    if let Some(mut err) = err {
        let _ = err.read_to_string(&mut message);
    }
    let _ = child.wait();
    let message = message.trim().trim_start_matches("granary: ").to_owned();
    let dir = args.dir.display();
    Err(Failure::usage(if message.is_empty() {
        format!("{dir}: the background process died")
    } else {
        message
    }))
}

/// The child's side: says that the mount answers, and lets go of the terminal.
fn hand_over(args: &MountArgs, line: &str) -> Result<(), Failure> {
    let log = args.log.clone().unwrap_or_else(|| PathBuf::from("/dev/null"));
    let file = OpenOptions::new().create(true).append(true).open(&log);
    let file = file.map_err(|e| Failure::io(format!("opening {}", log.display()), e))?;
    let std_io = |e: rustix::io::Errno| Failure::io("redirecting messages", e.into());
    rustix::stdio::dup2_stderr(&file).map_err(std_io)?;
    std::env::set_current_dir("/").map_err(|e| Failure::io("leaving the working directory", e))?;
    let mut out = io::stdout();
    // Nobody may be listening any more; the mount stands all the same.
    let _ = writeln!(out, "mounted {line}").and_then(|()| out.flush());
    rustix::stdio::dup2_stdout(&file).map_err(std_io)
}
