//! Rates of operations on one directory of many entries on any mounted directory.
//!
//! ```text
//!   dirbench DIR ENTRIES...      prints for each number: ENTRIES create lookup list list+stat unlink,
//!                                operations per second
//! ```
//!
//! Creates that many files in a new directory; the last tenth is timed. Looks 20,000 names up at random, in a
//! smaller directory in rounds. Before each round the kernel's entries and inodes are dropped, and a FUSE
//! server is told of it (needs root). Lists all with one `readdir`, then lists and looks at each as `ls -l`
//! does (there `readdirplus` pays). Removes a tenth and then the rest. The listed names are compared with the
//! created ones.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::{Duration, Instant};

const LOOKUPS: u64 = 20_000;

fn name(n: u64) -> String {
    format!("file-{n:010}")
}

/// Operations per second of `count` operations that `work` does.
fn rate(count: u64, work: impl FnOnce() -> io::Result<()>) -> io::Result<f64> {
    #[allow(clippy::disallowed_methods)] // that is what this program is for
    let start = Instant::now();
    work()?;
    Ok(count as f64 / start.elapsed().as_secs_f64())
}

/// The kernel forgets entries and inodes that nobody uses, and a FUSE server is told of each. The next
/// measurement does not include this.
fn forget(entries: u64) -> io::Result<()> {
    fs::write("/proc/sys/vm/drop_caches", "2")?;
    // The rest of the queue is taken in batches, at less than a microsecond for each inode:
    // docs/BENCHMARKS.md, "Large directories".
    #[allow(clippy::disallowed_methods)] // a program on the wall clock
    std::thread::sleep(Duration::from_millis(200) + Duration::from_micros(5 * entries));
    Ok(())
}

/// Lookups per second: as many names as said, in rounds, none twice in a round.
fn lookups(dir: &Path, entries: u64) -> io::Result<f64> {
    // A prime (Knuth's for multiplicative hashing): its multiples meet every place once, each far from the
    // one before.
    let place = |i: u64| (i * 2_654_435_761) % entries;
    let (looks, rounds) = (entries.min(LOOKUPS), LOOKUPS.div_ceil(entries));
    let mut seconds = 0.0;
    for _ in 0..rounds {
        forget(entries)?;
        let look = |i| fs::symlink_metadata(dir.join(name(place(i)))).map(drop);
        seconds += looks as f64 / rate(looks, || (0..looks).try_for_each(look))?;
    }
    Ok((looks * rounds) as f64 / seconds)
}

fn measure(root: &Path, entries: u64) -> io::Result<[f64; 5]> {
    let dir = root.join(format!("dirbench-{entries}"));
    fs::create_dir(&dir)?;
    let part = (entries / 10).max(1);
    let make =
        |from: u64, to: u64| (from..to).try_for_each(|n| File::create_new(dir.join(name(n))).map(drop));
    let remove = |from: u64, to: u64| (from..to).try_for_each(|n| fs::remove_file(dir.join(name(n))));
    make(0, entries - part)?;
    let create = rate(part, || make(entries - part, entries))?;
    let lookup = lookups(&dir, entries)?;
    forget(entries)?;
    let mut seen = HashSet::new();
    let list = rate(entries, || {
        fs::read_dir(&dir)?.try_for_each(|e| {
            seen.insert(e?.file_name());
            Ok(())
        })
    })?;
    if seen.len() as u64 != entries
        || !(0..entries).all(|n| seen.contains(name(n).as_str().as_ref() as &std::ffi::OsStr))
    {
        return Err(io::Error::other(format!("{} of {entries} names listed", seen.len())));
    }
    drop(seen);
    forget(entries)?;
    let mut all = 0;
    let look = rate(entries, || {
        fs::read_dir(&dir)?.try_for_each(|e| {
            e?.metadata()?;
            all += 1;
            Ok(())
        })
    })?;
    if all != entries {
        return Err(io::Error::other(format!("{all} of {entries} files looked at")));
    }
    let unlink = rate(part, || remove(0, part))?;
    remove(part, entries)?;
    fs::remove_dir(&dir)?;
    Ok([create, lookup, list, look, unlink])
}

fn main() -> io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let sizes: Option<Vec<u64>> = args.iter().skip(1).map(|a| a.parse().ok().filter(|&n| n > 0)).collect();
    let (Some(dir), Some(sizes)) = (args.first(), sizes.filter(|s| !s.is_empty())) else {
        return Err(io::Error::new(ErrorKind::InvalidInput, "usage: dirbench DIR ENTRIES..."));
    };
    println!(
        "{:>9} {:>9} {:>9} {:>9} {:>9} {:>9}   operations/s",
        "entries", "create", "lookup", "list", "list+stat", "unlink"
    );
    for entries in sizes {
        let row = measure(Path::new(dir), entries)?.map(|r| format!("{r:>9.0}"));
        println!("{entries:>9} {}", row.join(" "));
    }
    Ok(())
}
