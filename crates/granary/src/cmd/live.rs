//! `granary stat DIR`: what was asked of a mounted file system, and what it made of it.

pub mod directory;
mod stats;

pub use directory::open_dir;
pub use stats::{EXPORTED, Live, Sources, Stats};

use crate::cli::mount::StatArgs;
use crate::cmd::umount;
use crate::failure::Failure;
use crate::out;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use granary_image::ImageError;
use granary_lab::LabError;
use granary_mount::{STATS_FILE, mountinfo};
use granary_units::{Bytes, PAGE_SIZE};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;
use std::sync::mpsc;
use std::thread::Builder;
use std::time::Duration;

/// Runs the command.
pub fn run(args: &StatArgs) -> Result<(), Failure> {
    let plain = mountinfo::locate(&args.path).map_err(|e| Failure::io(args.path.display(), e))?;
    let mounted = mountinfo::ours(&plain).map_err(|e| Failure::io("reading /proc/self/mountinfo", e))?;
    if mounted.is_none() && args.watch {
        let path = args.path.display();
        return Err(Failure::usage(format!(
            "{path} is not mounted: nothing moves there that --watch could show"
        )));
    }
    if mounted.is_none() {
        return super::stat::run(&args.path, args.json).map_err(|e| {
            let foreign = matches!(e, LabError::Image(ImageError::Foreign { .. }));
            let above = plain.ancestors().skip(1).find(|a| mountinfo::ours(a).is_ok_and(|m| m.is_some()));
            above.filter(|_| foreign).map_or_else(
                || Failure::from(e),
                |above| {
                    let (path, above) = (args.path.display(), above.display());
                    Failure::usage(format!(
                        "{path} is in the file system that is mounted on {above}: `granary stat {above}`"
                    ))
                },
            )
        });
    }
    if !args.watch {
        let stats = look(&args.path)?;
        out!("{}", if args.json { line(&stats) } else { tables(&stats, None) });
        return Ok(());
    }
    let mut last: Option<Stats> = None;
    loop {
        let stats = match look(&args.path) {
            // Unmounted while we watched; where it is still mounted, the process that serves it has died.
            Err(_) if last.is_some() && mountinfo::ours(&plain).is_ok_and(|m| m.is_none()) => return Ok(()),
            other => other?,
        };
        let text = if args.json { line(&stats) } else { tables(&stats, last.as_ref()) };
        let clear = if out::is_terminal() && !args.json { "\x1b[H\x1b[2J" } else { "" };
        out!("{clear}{text}");
        out::flush();
        if !out::is_open() {
            return Ok(());
        }
        last = Some(stats);
        #[allow(clippy::disallowed_methods)] // a person watches
        std::thread::sleep(Duration::from_secs_f64(args.interval));
    }
}

fn line(stats: &Stats) -> String {
    serde_json::to_string(stats).expect("plain numbers and names") + "\n"
}

/// How long a serving process may take to answer: it needs nothing for it that waits for the drive.
const PATIENCE: Duration = Duration::from_secs(30);
/// The same where a process that may be the one is stopped.
const STOPPED: Duration = Duration::from_secs(2);

/// Asks the mount on `dir` for its counters.
///
/// # Errors
/// It does not answer. The inner error is its answer, or the kernel's.
pub fn ask(dir: &Path) -> Result<io::Result<String>, Failure> {
    let (tell, told) = mpsc::channel();
    let path = dir.join(STATS_FILE);
    // A thread can be left behind, where a call that waits cannot be taken back; it ends with this process.
    let asking = Builder::new().spawn(move || drop(tell.send(fs::read_to_string(path))));
    asking.map_err(|e| Failure::io("starting a thread", e))?;
    if let Ok(text) = told.recv_timeout(STOPPED) {
        return Ok(text);
    }
    let stopped = umount::stopped_servers();
    if stopped.is_empty()
        && let Ok(text) = told.recv_timeout(PATIENCE - STOPPED)
    {
        return Ok(text);
    }
    let dir = dir.display();
    let lazily = format!("`granary umount --lazy {dir}` takes the mount out of sight without asking it");
    Err(Failure::usage(match stopped.iter().map(u32::to_string).collect::<Vec<_>>().join(" ") {
        none if none.is_empty() => format!(
            "{dir}: the process that serves it has not answered for {} s; {lazily}",
            PATIENCE.as_secs()
        ),
        some => format!("{dir} does not answer, and this is stopped: kill -CONT {some}; {lazily}"),
    }))
}

/// Whether the kernel says by it that the process that serves a mount is gone, or is going.
pub fn is_of_the_dead(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::NotConnected | io::ErrorKind::ConnectionAborted)
}

/// The counters of the mount on `path`.
///
/// # Errors
/// It does not answer; nobody serves it any more; another version does.
pub fn look(path: &Path) -> Result<Stats, Failure> {
    let text = ask(path)?.map_err(|e| match e {
        e if is_of_the_dead(&e) => Failure::usage(format!(
            "{0}: the process that served it is dead; unmount it (`granary umount {0}`) and mount it again",
            path.display()
        )),
        e => Failure::io(path.display(), e),
    })?;
    serde_json::from_str(&text).map_err(|e| {
        Failure::usage(format!("{}: mounted by another version of granary ({e})", path.display()))
    })
}

fn grid(header: &[&str]) -> Table {
    let mut t = Table::new();
    t.load_preset(presets::UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Disabled);
    t.set_header(header);
    t
}

fn right(text: impl ToString) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

/// Rates per second since `last`.
struct Rate {
    seconds: f64,
}

impl Rate {
    fn of(&self, now: u64, before: u64) -> u64 {
        (now.saturating_sub(before) as f64 / self.seconds) as u64
    }
}

fn tables(stats: &Stats, last: Option<&Stats>) -> String {
    let zero = Stats::default();
    let before = last.unwrap_or(&zero);
    let seconds = stats.mounted_s - before.mounted_s;
    let rate = (seconds > 0.0).then_some(Rate { seconds });
    let (source, fs, s, pid) = (&stats.source, &stats.fs, stats.mounted_s, stats.pid);
    let mut out = format!("{source} ({fs}), mounted for {s:.0} s by process {pid}\n");
    if !stats.ops.is_empty() {
        out += &format!("{}\n", requests("requests", &stats.ops, &before.ops, rate.as_ref()));
    }
    if let Some(direct) = &stats.direct {
        let none = BTreeMap::new();
        let earlier = before.direct.as_ref().map_or(&none, |direct| &direct.ops);
        out += &format!("{}\n", requests("direct access", &direct.ops, earlier, rate.as_ref()));
    }
    out += &format!("{}\n{}\n", link(stats, before, rate.as_ref()), flash(stats));
    if !stats.memory.is_empty() {
        out += &format!("{}\n", memory(stats));
    }
    if let Some(kept) = &stats.kept {
        out += &format!("kept: {kept}\n");
    }
    if let Some(amplification) = stats.amplification.write {
        out += &format!(
            "programs wrote {}, read {}; write amplification (host link / programs) {amplification:.2}x\n",
            Bytes(stats.app.write_bytes),
            Bytes(stats.app.read_bytes)
        );
    }
    out
}

fn requests(
    what: &str,
    now: &BTreeMap<String, u64>,
    before: &BTreeMap<String, u64>,
    rate: Option<&Rate>,
) -> Table {
    let mut t = grid(&[what, "count", "per second"]);
    for (op, &n) in now {
        let per_s =
            rate.map_or_else(String::new, |r| r.of(n, before.get(op).copied().unwrap_or(0)).to_string());
        t.add_row([Cell::new(op), right(n), right(per_s)]);
    }
    t
}

/// Bytes over the host link: a row for each data structure.
fn link(stats: &Stats, before: &Stats, rate: Option<&Rate>) -> Table {
    let mut t =
        grid(&["host link", "byte write", "block write", "byte read", "block read", "written per second"]);
    let of = |map: &BTreeMap<String, u64>, name: &str| map.get(name).copied().unwrap_or(0);
    let (byte, block) = (&stats.host.byte, &stats.host.block);
    let all = [&byte.write_bytes, &block.write_bytes, &byte.read_bytes, &block.read_bytes];
    let names: BTreeSet<&String> = all.iter().flat_map(|m| m.keys()).collect();
    for name in names {
        let mut row = vec![Cell::new(name)];
        row.extend(all.iter().map(|m| right(Bytes(of(m, name)))));
        let written = of(all[0], name) + of(all[1], name);
        let earlier = of(&before.host.byte.write_bytes, name) + of(&before.host.block.write_bytes, name);
        row.push(right(rate.map_or_else(String::new, |r| Bytes(r.of(written, earlier)).to_string())));
        t.add_row(row);
    }
    t
}

/// Flash traffic: a row for each cause.
fn flash(stats: &Stats) -> Table {
    let mut t = grid(&["flash", "read", "programmed"]);
    let f = &stats.flash;
    let names: BTreeSet<&String> = f.read_pages.keys().chain(f.program_pages.keys()).collect();
    let size = |map: &BTreeMap<String, u64>, name: &str| {
        right(Bytes(map.get(name).copied().unwrap_or(0) * PAGE_SIZE as u64))
    };
    for name in names {
        t.add_row([Cell::new(name), size(&f.read_pages, name), size(&f.program_pages, name)]);
    }
    t
}

/// Memory that the file system tells of: of the drive, for one that works there.
fn memory(stats: &Stats) -> Table {
    let mut t = grid(&["memory", "bytes"]);
    for (kind, &bytes) in &stats.memory {
        t.add_row([Cell::new(kind), right(Bytes(bytes))]);
    }
    t
}
