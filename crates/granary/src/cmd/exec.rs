//! `granary exec DIR -- PROGRAM ARGS`: a program with direct access to a mount.
//!
//! ```text
//!   the mount's counters ──> its socket      this program's directory ──> libgranary_userlib.so
//!     environment: LD_PRELOAD, GRANARY_DIRECT_SOCKET, GRANARY_DIRECT_DIR, GRANARY_DIRECT_DEVICE ──> exec
//! ```
//!
//! The program sees the mount as always. A program that cannot bypass the kernel (a static one, a set-user-ID
//! one, or any where the server is full) gets a message, and goes through the kernel.

mod program;

use crate::cli::mount::ExecArgs;
use crate::cmd::live;
use crate::failure::Failure;
use granary_direct::{Connection, DEVICE_VARIABLE, DIR_VARIABLE, REPORT_VARIABLE, SOCKET_VARIABLE};
use granary_mount::mountinfo;
use program::Kind;
use std::env;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The library's file name.
const LIBRARY: &str = "libgranary_userlib.so";
/// Says where it is, where that is nowhere usual.
const LIBRARY_VARIABLE: &str = "GRANARY_USERLIB";

/// Runs the command. Returns only where the program could not be started.
pub fn run(args: &ExecArgs) -> Result<(), Failure> {
    let shown = args.dir.display();
    let dir = mountinfo::locate(&args.dir).map_err(|e| Failure::io(args.dir.display(), e))?;
    let mounted = mountinfo::ours(&dir).map_err(|e| Failure::io("reading /proc/self/mountinfo", e))?;
    if mounted.is_none() {
        return Err(Failure::usage(format!(
            "{shown} is not a mounted granary file system: `granary mount --direct IMAGE {shown}` makes it one"
        )));
    }
    let Some(direct) = live::look(&dir)?.direct else {
        return Err(Failure::usage(format!(
            "{shown} is mounted without direct access: unmount it, and mount it with --direct"
        )));
    };
    let library = library()?;
    let (name, rest) = args.program.split_first().expect("clap wants one");
    match program::kind(name) {
        Some(Kind::Static) => say!(
            "granary: {} is statically linked: it goes through the kernel's FUSE, its children need not",
            name.display()
        ),
        Some(Kind::Privileged) => say!(
            "granary: {} takes its owner's rights (set-user-ID): it goes through the kernel's FUSE",
            name.display()
        ),
        _ => {}
    }
    if let Err(e) = Connection::open(&direct.socket, &dir) {
        say!(
            "granary: direct access to {shown}: {e}; the program goes through the kernel's FUSE as long as that is so"
        );
    }
    let mut preload = library.into_os_string();
    if let Some(others) = env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    let mut command = Command::new(name);
    command
        .args(rest)
        .env("LD_PRELOAD", preload)
        .env(SOCKET_VARIABLE, &direct.socket)
        .env(DIR_VARIABLE, &dir)
        .env(DEVICE_VARIABLE, device(&dir)?);
    if args.report {
        command.env(REPORT_VARIABLE, "1");
    }
    Err(Failure::io(name.display(), command.exec()))
}

/// The device that files of the mount show, as the library compares it.
fn device(dir: &Path) -> Result<String, Failure> {
    let dev = std::fs::metadata(dir).map_err(|e| Failure::io(dir.display(), e))?.dev();
    Ok(format!("{}:{}", rustix::fs::major(dev), rustix::fs::minor(dev)))
}

/// Where the library is: as the variable says; beside this program, as cargo builds both; where packages put
/// libraries.
fn library() -> Result<PathBuf, Failure> {
    let told: Option<OsString> = env::var_os(LIBRARY_VARIABLE);
    if let Some(path) = told.map(PathBuf::from) {
        return path.is_file().then(|| std::path::absolute(&path).unwrap_or(path.clone())).ok_or_else(|| {
            Failure::usage(format!("{}, as {LIBRARY_VARIABLE} says, is not there", path.display()))
        });
    }
    let me = env::current_exe().map_err(|e| Failure::io("finding this program", e))?;
    let beside = me.parent().map(PathBuf::from).unwrap_or_default();
    let places = ["", "deps", "../lib/granary", "../lib"].map(|place| beside.join(place).join(LIBRARY));
    places.into_iter().find(|path| path.is_file()).ok_or_else(|| {
        Failure::usage(format!(
            "{LIBRARY} is neither beside {} nor in ../lib/granary: build it (`cargo build --release -p granary-userlib`) and copy it \
             there, or say where it is in {LIBRARY_VARIABLE}",
            me.display()
        ))
    })
}
