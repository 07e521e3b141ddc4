//! `granary export IMAGE|ram: DIR`: a drive's blocks as a file, for a loop device and the kernel's own file
//! systems.
//!
//! ```text
//!   granary export ram: DIR --loop --daemon    -> /dev/loop3
//!   mkfs.ext4 /dev/loop3; mount /dev/loop3 MNT; ...; umount MNT
//!   granary stat DIR                           what moved
//!   granary umount DIR                         detaches the loop device, flushes, ends
//! ```
//!
//! The end comes in the order file system, loop device, file: while a kernel file system is mounted on the
//! loop device, the file is in use.

use crate::cli::export::ExportArgs;
use crate::cli::mount::Survives;
use crate::cmd::files::warn;
use crate::cmd::live::{EXPORTED, Live, Sources};
use crate::cmd::loopdev::{self, LoopDevice};
use crate::cmd::outcome::Outcome;
use crate::cmd::ram::{RamDevices, Record, counter, refuse};
use crate::cmd::serve;
use crate::failure::Failure;
use crate::out;
use granary_device::{Devices, Drive, Need, Port};
use granary_fs::FsError;
use granary_image::Image;
use granary_lab::image::open_drive;
use granary_mount::{DRIVE_FILE, Exported, Options};
use granary_sim::wall::set_pacing;
use granary_testbed::Testbed;
use granary_units::{Bytes, PAGE_SIZE};
use parking_lot::Mutex;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// Runs the command.
pub fn run(args: &ExportArgs) -> Result<(), Failure> {
    args.serve.check(serve::in_memory(&args.image).is_some())?;
    if args.serve.daemon { serve::start_daemon(&args.dir) } else { run_server(args) }
}

/// A drive that is ready to be exported.
struct Opened {
    drive: Arc<dyn Drive>,
    image: Option<Arc<Image>>,
    record: Option<Record>,
    told: String,
}

fn run_server(args: &ExportArgs) -> Result<(), Failure> {
    let outcome = Outcome::new();
    let ended = serve_until_unmounted(args);
    outcome.tell(&ended);
    ended
}

fn serve_until_unmounted(args: &ExportArgs) -> Result<(), Failure> {
    let mut args = args.clone();
    args.image = serve::absolute_image(&args.image)?;
    // First: an image need not be opened for nothing.
    granary_mount::check(&args.dir, false)?;
    if args.loop_device {
        loopdev::check()?;
    }
    let log = serve::open_log(args.serve.log.as_deref())?;
    let opened = open(&args)?;
    set_pacing(args.serve.pacing());
    let ended = serve_drive(&args, &log, &opened);
    // The image is closed even after an error.
    let Opened { drive, image, record, .. } = opened;
    drop(drive);
    let recorded = record.map_or(Ok(0), |record| record.finish());
    let closed = image.and_then(Arc::into_inner).map_or(Ok(()), Image::close);
    ended?;
    recorded?;
    Ok(closed?)
}

/// Serves the drive until it is unmounted.
fn serve_drive(args: &ExportArgs, log: &File, opened: &Opened) -> Result<(), Failure> {
    let exported = granary_mount::export(Port::new(opened.drive.clone()), &args.dir, &options(args, opened))?;
    let announced = announce(args, log, opened, &exported);
    if announced.is_err() {
        // Nobody knows of it, or could end it.
        let _ = exported.unmounter().unmount(true);
    }
    let ended = exported.join();
    announced?;
    ended.map_err(Failure::from)
}

/// Makes the loop device, says what is where, and lets signals end it. The device goes with what is returned.
fn announce(
    args: &ExportArgs,
    log: &File,
    opened: &Opened,
    exported: &Exported,
) -> Result<Arc<Mutex<Option<LoopDevice>>>, Failure> {
    let file = exported.dir().join(DRIVE_FILE);
    // The kernel writes back through us when memory is short: we must not wait for it then. Root's privilege.
    let _ = rustix::process::configure_io_flusher_behavior(true);
    let device = if args.loop_device { Some(LoopDevice::over(&file, args.serve.read_only)?) } else { None };
    let place = device.as_ref().map_or(file, |d| d.path().to_owned());
    let line = format!("{} is {}, {}", serve::shown(&place), serve::shown(&args.image), opened.told);
    if args.serve.background {
        serve::hand_over(log, &line)?;
    } else {
        let dir = serve::shown(exported.dir());
        say!("{line}; unmount what uses it, then `granary umount {dir}` or Ctrl-C");
        if device.is_some() {
            outln!("{}", place.display());
            out::flush();
        }
    }
    serve::die_on_panic();
    let last = opened.drive.clone();
    let left = if opened.image.is_some() { serve::NOT_CLOSED } else { "what was in memory is gone" };
    let device = Arc::new(Mutex::new(device));
    let held = device.clone();
    serve::watch_signals(
        exported.unmounter(),
        move || drop(held.lock().take()),
        move || Port::new(last.clone()).flush().map(|()| left).map_err(|e| e.to_string()),
    )?;
    Ok(device)
}

fn options(args: &ExportArgs, opened: &Opened) -> Options {
    let live = Live::new(Sources {
        source: args.image.to_string_lossy().into_owned(),
        fs: EXPORTED.to_owned(),
        durability: args.serve.durability,
        vfs: None,
        devices: Devices::ssd(opened.drive.clone()),
        image: opened.image.clone(),
        recorded: counter(&opened.record),
        direct: None,
    });
    let barrier = opened.image.clone().filter(|_| args.serve.durability == Survives::Machine);
    Options {
        read_only: args.serve.read_only,
        threads: args.serve.threads(),
        source: serve::table_source(&args.image),
        durable: barrier.map(serve::durable_hook),
        stats: Some(Arc::new(move |operations| live.json(operations))),
        ..Options::default()
    }
}

fn open(args: &ExportArgs) -> Result<Opened, Failure> {
    if args.image == "ram:" {
        return open_ram(args);
    }
    if serve::in_memory(&args.image).is_some() {
        return Err(Failure::usage(format!(
            "{}: a drive is exported without a file system of granary's; say ram: alone, and make one with mkfs.ext4 on its \
             loop device",
            args.image.display()
        )));
    }
    refuse(&args.memory, "export ram:")?;
    let (image, drive) =
        open_drive(Path::new(&args.image), args.serve.durability.into(), args.serve.read_only, args.force)?;
    warn(image.exposed().as_deref());
    let how = image.replayed().map_or("closed cleanly".to_owned(), |r| r.to_string());
    let told = format!("a drive of {}, {how}", Bytes(drive.info().pages * PAGE_SIZE as u64));
    Ok(Opened { drive, image: Some(Arc::new(image)), record: None, told })
}

fn open_ram(args: &ExportArgs) -> Result<Opened, Failure> {
    let testbed = Testbed::load(args.memory.testbed(), &args.set)?;
    let size = args.memory.size.unwrap_or(Bytes::gib(8));
    // Only blocks: the firmware of the baselines.
    let RamDevices { devices, record } =
        RamDevices::new("export", &testbed, &args.set, None, size, &args.memory)?;
    let told = format!("a new drive of {size} in memory, gone when it is unmounted");
    let drive = devices.serving(Need::Blocks).map_err(FsError::from)?.drive().clone();
    Ok(Opened { drive, image: None, record, told })
}
