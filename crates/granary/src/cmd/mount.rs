//! `granary mount IMAGE|ram:FS DIR`: a file system for programs, until it is unmounted or told to stop.
//!
//! The background, signals and the end: `serve.rs`.

use crate::cli::mount::{MountArgs, Survives};
use crate::cmd::control::{Control, Request};
use crate::cmd::direct;
use crate::cmd::files::tell;
use crate::cmd::live::{Live, Sources};
use crate::cmd::outcome::Outcome;
use crate::cmd::ram::{RamDevices, Record, counter, refuse};
use crate::cmd::serve;
use crate::cmd::stacked;
use crate::failure::Failure;
use granary_device::Devices;
use granary_fs::Caller;
use granary_image::Image;
use granary_lab::image::{OpenImage, give_root, grow_mounted, may_have_lists, note_lists, under_vfs};
use granary_lab::stack::{self, Stack};
use granary_mount::{MountError, Options, host_config, mountinfo};
use granary_sim::wall::set_pacing;
use granary_testbed::registry;
use granary_testbed::{Host, Testbed};
use granary_units::{Bytes, PAGE_SIZE};
use granary_vfs::Vfs;
use rustix::process::geteuid;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Runs the command.
pub fn run(args: &MountArgs) -> Result<(), Failure> {
    args.serve.check(serve::in_memory(&args.image).is_some())?;
    if (args.suid || args.dev) && !geteuid().is_root() {
        return Err(Failure::usage("--suid and --dev are for root: as mount(8) has it".to_owned()));
    }
    if args.serve.daemon { serve::start_daemon(&args.dir) } else { run_server(args) }
}

/// A file system that is ready to be mounted, and what lies under it.
struct Opened {
    vfs: Arc<Vfs>,
    devices: Devices,
    image: Option<Arc<Image>>,
    record: Option<Record>,
    fs: &'static str,
    /// Report on the recovery and its duration.
    told: String,
    /// Keeps other stacks off the directory below.
    lock: Option<stack::Lock>,
}

/// Whether the mount is to hide what is in its directory: it shows the same files, through persistent memory.
///
/// # Errors
/// The directory lies within the one below: whoever lists that would wait for the mount, which waits for the
/// list.
fn stacked_place(args: &MountArgs) -> Result<bool, Failure> {
    let Some(below) = &args.stack else { return Ok(false) };
    let (Ok(below), Ok(dir)) = (below.canonicalize(), args.dir.canonicalize()) else { return Ok(false) };
    // By identity as well: a bind mount gives the directory another path.
    let identity = |path: &Path| std::fs::metadata(path).map(|meta| (meta.dev(), meta.ino())).ok();
    let is_below =
        |path: &Path| path == below || identity(path).is_some_and(|own| identity(&below) == Some(own));
    if dir != below && dir.ancestors().skip(1).any(is_below) {
        return Err(Failure::usage(format!(
            "{} lies within {}: mount on a directory outside, or over {} itself",
            dir.display(),
            below.display(),
            below.display()
        )));
    }
    Ok(dir == below)
}

fn run_server(args: &MountArgs) -> Result<(), Failure> {
    let outcome = Outcome::new();
    let ended = serve_until_unmounted(args);
    outcome.tell(&ended);
    ended
}

fn serve_until_unmounted(args: &MountArgs) -> Result<(), Failure> {
    let mut args = args.clone();
    args.image = serve::absolute_image(&args.image)?;
    if let Some(dir) = &mut args.stack {
        *dir = std::path::absolute(&*dir).map_err(|e| Failure::io(dir.display(), e))?;
    }
    // First: an image need not be opened, and recovered, for nothing.
    let hides = stacked_place(&args)?;
    granary_mount::check(&args.dir, hides)?;
    let log = serve::open_log(args.serve.log.as_deref())?;
    let mut opened = open(&args)?;
    let settled = settle_xattrs(&mut args, &mut opened);
    // Recovery was not paced: its modelled time is told, nobody has to wait for it.
    set_pacing(args.serve.pacing());
    let mounted = settled
        .and_then(|()| Ok(granary_mount::mount(opened.vfs.clone(), &args.dir, &options(&args, &opened)?)?));
    let mounted = match mounted {
        Ok(mounted) => mounted,
        Err(e) => {
            // The image is left as clean as it was found. Why it is not mounted matters more than what fails
            // now.
            let Opened { vfs, image, devices, lock: _lock, .. } = opened;
            let _ = vfs.unmount();
            drop((vfs, devices));
            let _ = image.and_then(Arc::into_inner).map(Image::close);
            return Err(e);
        }
    };
    // Before anybody is told that it is mounted: they may ask at once.
    let control = opened.image.as_ref().filter(|_| !args.serve.read_only);
    let control = control.and_then(|image| take_requests(Path::new(&args.image), image, &opened.vfs));
    let dir = serve::shown(mounted.dir());
    let line = format!("{} is mounted on {dir}: {}", serve::shown(&args.image), opened.told);
    let announced = if args.serve.background {
        serve::hand_over(&log, &line)
    } else {
        say!("{line}; unmount with `granary umount {dir}` or Ctrl-C");
        Ok(())
    };
    let Opened { vfs, image, devices, record, lock: _lock, .. } = opened;
    serve::freeze_on_panic(&mounted.breaker(), image.as_ref());
    let left = if image.is_some() { serve::NOT_CLOSED } else { "what was in memory is gone" };
    let announced = announced.and_then(|()| {
        serve::watch_signals(
            mounted.unmounter(),
            || {},
            move || vfs.sync(&Caller::KERNEL).map(|()| left).map_err(|e| e.to_string()),
        )
    });
    if announced.is_err() {
        // Nobody knows of it, or could end it: it is taken back, and the image closed.
        let _ = mounted.unmounter().unmount(true);
    }
    let ended = mounted.join();
    // It may hold the image.
    drop((control, devices));
    let recorded = record.map_or(Ok(0), |record| record.finish());
    let closed = match image.and_then(Arc::into_inner) {
        // After a panic it stays as it is.
        Some(image) if !matches!(ended, Err(MountError::Panicked(_))) => image.close(),
        _ => Ok(()),
    };
    announced?;
    recorded?;
    ended?;
    Ok(closed?)
}

/// Whether there are extended attributes: where they are asked for, and where files may have access control
/// lists.
fn settle_xattrs(args: &mut MountArgs, opened: &mut Opened) -> Result<(), Failure> {
    if !opened.vfs.keeps_attributes() {
        if args.xattrs {
            opened.told += &format!("; without extended attributes, which {} does not keep", opened.fs);
        }
    } else if let Some(image) = &opened.image {
        if args.xattrs && !args.serve.read_only {
            note_lists(image)?;
        } else if !args.xattrs && may_have_lists(image) {
            args.xattrs = true;
            opened.told += "; with --xattrs, because its files may have access control lists";
        }
    }
    Ok(())
}

/// Lets the image grow while it is mounted. A host without sockets must not keep anybody from mounting.
fn take_requests(path: &Path, image: &Arc<Image>, vfs: &Arc<Vfs>) -> Option<Control> {
    let at = path.to_owned();
    let dir = image.directory()?.try_clone_to_owned();
    let (image, vfs) = (Arc::downgrade(image), Arc::downgrade(vfs));
    let started = dir.and_then(|dir| {
        Control::start(dir, move |Request::Grow(size)| {
            let (Some(image), Some(vfs)) = (image.upgrade(), vfs.upgrade()) else {
                return Err(format!("{} is being unmounted: grow the image then", at.display()));
            };
            grow_mounted(&image, &vfs, &at, size).map_err(|e| e.to_string())
        })
    });
    started.inspect_err(|e| serve::say(&format!("this mount cannot grow: making its socket: {e}"))).ok()
}

fn options(args: &MountArgs, opened: &Opened) -> Result<Options, Failure> {
    let direct = args.direct.then(|| direct::socket(args.allow_other)).transpose()?;
    let live = Live::new(Sources {
        source: args.image.to_string_lossy().into_owned(),
        fs: opened.fs.to_owned(),
        durability: args.serve.durability,
        vfs: Some(opened.vfs.clone()),
        devices: opened.devices.clone(),
        image: opened.image.clone(),
        recorded: counter(&opened.record),
        direct: direct.clone(),
    });
    let barrier = opened.image.clone().filter(|_| args.serve.durability == Survives::Machine);
    Ok(Options {
        read_only: args.serve.read_only,
        advise: Some(Arc::new(serve::say)),
        allow_other: args.allow_other,
        xattrs: args.xattrs,
        suid: args.suid,
        dev: args.dev,
        threads: args.serve.threads(),
        source: serve::table_source(&args.image),
        durable: barrier.map(serve::durable_hook),
        direct,
        stats: Some(Arc::new(move |operations| live.json(operations))),
        hides: stacked_place(args)?,
    })
}

fn open(args: &MountArgs) -> Result<Opened, Failure> {
    match (&args.stack, serve::in_memory(&args.image)) {
        (Some(dir), None) => open_stack(args, dir),
        (Some(_), Some(_)) => Err(Failure::usage(
            "--stack wants an image: what is in memory would be lost with the mount".to_owned(),
        )),
        (None, Some(fs)) => open_ram(args, &fs),
        (None, None) => open_image(args),
    }
}

/// Refuses a directory that a mount of ours shows: what lies below has the files, and maybe persistent memory
/// in front of it already.
fn refuse_shown(dir: &Path) -> Result<(), Failure> {
    let Ok(at) = dir.canonicalize() else { return Ok(()) };
    for above in at.ancestors() {
        let entry = mountinfo::find(above).map_err(|e| Failure::io(above.display(), e))?;
        let Some(entry) = entry.filter(|m| m.fs_type == mountinfo::FS_TYPE) else { continue };
        if above == at || stack::is_stacked(Path::new(serve::image_of(&entry.source))) {
            return Err(Failure::usage(format!(
                "{}: {} is a mount of {}: give the directory that is below it, after `granary umount {}`",
                dir.display(),
                serve::shown(above.as_os_str()),
                serve::image_of(&entry.source),
                serve::shown(above.as_os_str())
            )));
        }
    }
    Ok(())
}

/// A directory of the host, with an image of persistent memory in front of it.
fn open_stack(args: &MountArgs, dir: &Path) -> Result<Opened, Failure> {
    if args.serve.read_only {
        let (dir, image) = (serve::shown(dir.as_os_str()), serve::shown(&args.image));
        return Err(Failure::usage(format!(
            "a mount with --stack is for writing; without a mount, and without a change, `granary ls --stack {dir} {image}` lists the \
             files, `granary cat --stack {dir} {image} PATH` reads one, and `granary cp-out --stack {dir} {image} / PLACE` copies all"
        )));
    }
    refuse_shown(dir)?;
    // With the names of files in a testbed, as everywhere: `--set fs.spfs.promote_after=2`.
    let testbed = Testbed::load(args.memory.testbed(), &args.set)?;
    let mut options = registry::stack_options(&testbed);
    options.insert("demote_at_unmount".to_owned(), args.demote_all.into());
    let vfs = host_config(testbed.host.vfs, args.page_cache, false);
    let vfs = stacked::bounded(vfs);
    let how = Stack {
        dir,
        image: Path::new(&args.image),
        size: args.memory.size.unwrap_or(Bytes::gib(1)),
        durability: args.serve.durability.into(),
        forget: args.forget,
        vfs,
        options: &options,
    };
    let stack::Stacked { vfs, image, devices, new, lost, lock } = stack::open(&how)?;
    let what = if new { "a new image of persistent memory" } else { "persistent memory" };
    let mut told = format!("{what} in front of {}", serve::shown(dir.as_os_str()));
    if let Some(lost) = lost {
        told += &format!("; {lost}");
    }
    let (image, lock) = (Some(Arc::new(image)), Some(lock));
    Ok(Opened { vfs, devices, image, record: None, fs: "spfs", told, lock })
}

/// A new file system on a drive in memory; it ends with the mount.
fn open_ram(args: &MountArgs, fs: &str) -> Result<Opened, Failure> {
    let entry = registry::find(fs)?;
    let base = Testbed::load(args.memory.testbed(), &[])?;
    let (changed, paths) = base.with(&args.set)?;
    heeded(entry, args, &changed.host, &paths)?;
    let testbed = Testbed::load(args.memory.testbed(), &args.set)?;
    let size = args.memory.size.unwrap_or(Bytes::gib(1));
    let RamDevices { devices, record } =
        RamDevices::new("mount", &testbed, &args.set, Some(entry), size, &args.memory)?;
    registry::mkfs(entry, &devices)?;
    let vfs = mount_on(args, &devices, entry, &testbed)?;
    give_root(&vfs, super::me())?;
    let told = format!("a new {fs} in memory, {size}, gone when it is unmounted");
    Ok(Opened { vfs, devices, image: None, record, fs: entry.name, told, lock: None })
}

fn open_image(args: &MountArgs) -> Result<Opened, Failure> {
    refuse(&args.memory, "mount ram:FS")?;
    #[allow(clippy::disallowed_methods)] // what the person at the terminal waits for
    let start = Instant::now();
    let path = Path::new(&args.image);
    let mut open =
        serve::when_free(path, || OpenImage::open(path, args.serve.durability.into(), args.serve.read_only))?;
    tell(&open);
    if let Err(e) = set_host(&mut open, args) {
        open.close_unused();
        return Err(e);
    }
    let before = open.devices.sum();
    let vfs = match mount_on(args, &open.devices, open.entry, &open.testbed) {
        Ok(vfs) => vfs,
        Err(e) => {
            open.close_unused();
            return Err(e);
        }
    };
    let OpenImage { image, devices, entry, .. } = open;
    let after = devices.sum().since(&before);
    let pages = devices.iter().map(|(_, port)| port.info().pages).sum::<u64>();
    let mut told = format!("{}, {}", entry.name, Bytes(pages * PAGE_SIZE as u64));
    match image.replayed() {
        None => told += ", closed cleanly",
        Some(r) => {
            told += &format!(", {r}");
            let (log, journal) =
                (after.log, after.link.block_read[granary_device::Structure::Journal as usize]);
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
    Ok(Opened { vfs, devices, image: Some(Arc::new(image)), record: None, fs: entry.name, told, lock: None })
}

/// Changes values of this host, as `--set` has them.
fn set_host(open: &mut OpenImage, args: &MountArgs) -> Result<(), Failure> {
    if args.set.is_empty() {
        return Ok(());
    }
    let paths = open.set_host(&args.set)?;
    heeded(open.entry, args, &open.testbed.host, &paths)
}

/// Refuses values of this host (with the whole paths of their keys) that say nothing of a mount of this file
/// system.
fn heeded(entry: &registry::FsEntry, args: &MountArgs, host: &Host, paths: &[String]) -> Result<(), Failure> {
    let layers = std::iter::successors(Some(entry), |layer| layer.below);
    let own: Vec<&str> = layers.filter_map(|layer| layer.options.as_ref()).map(|o| o.section).collect();
    for (set, path) in args.set.iter().zip(paths) {
        let (section, rest) = path.split_once('.').unwrap_or((path, ""));
        let why = match (section, rest.split_once('.').map(|(part, _)| part)) {
            _ if path == "host.vfs.page_cache" => "say --page-cache".to_owned(),
            _ if path == "host.metadata_cache" && host.metadata_cache > args.page_cache => {
                format!("it has no more for metadata than for pages, --page-cache {}", args.page_cache)
            }
            _ if path == "host.cores" => "programs run on this machine's cores".to_owned(),
            ("host", Some("costs")) => "programs run in this machine's time".to_owned(),
            ("fs", Some(fs)) if !own.contains(&fs) => format!("this is {}", entry.name),
            _ => continue,
        };
        return Err(Failure::usage(format!("--set {set} changes nothing of this mount: {why}")));
    }
    Ok(())
}

fn mount_on(
    args: &MountArgs,
    devices: &Devices,
    entry: &registry::FsEntry,
    testbed: &Testbed,
) -> Result<Arc<Vfs>, Failure> {
    // The testbed's host has its own memory; this one lends what the arguments say.
    let mut testbed = testbed.clone();
    testbed.host.metadata_cache.0 = testbed.host.metadata_cache.0.min(args.page_cache.0);
    let fs = registry::mount(entry, devices, &testbed, args.serve.read_only)?;
    Ok(under_vfs(fs, host_config(testbed.host.vfs, args.page_cache, args.serve.read_only))?)
}
