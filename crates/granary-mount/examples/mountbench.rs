//! Times single operations of a program on any mounted directory; `scripts/bench-mount.sh` runs it.
//!
//! ```text
//!   mountbench DIR OPERATION COUNT     prints: OPERATION median_ns mean_ns
//! ```

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::Instant;

const FILE: u64 = 16 << 20;
const BLOCK: usize = 4096;

fn open(path: &Path, flags: rustix::fs::OFlags) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .custom_flags(flags.bits() as i32)
        .open(path)
}

/// Times `count` calls of `call` one by one.
fn time(count: u64, mut call: impl FnMut(u64) -> io::Result<()>) -> io::Result<Vec<u64>> {
    (0..count)
        .map(|i| {
            #[allow(clippy::disallowed_methods)] // that is what this program is for
            let start = Instant::now();
            call(i)?;
            Ok(start.elapsed().as_nanos() as u64)
        })
        .collect()
}

/// Some block of the file, the same sequence each time.
fn place(i: u64, size: u64) -> u64 {
    i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (FILE / size) * size
}

fn run(dir: &Path, operation: &str, count: u64) -> io::Result<Vec<u64>> {
    let data = dir.join("data");
    if !data.exists() {
        fs::write(&data, (0..FILE).map(|i| ((i * 31) >> 3) as u8).collect::<Vec<_>>())?;
        File::open(&data)?.sync_all()?;
    }
    let mut space = vec![0x5au8; 2 * BLOCK];
    let skip = space.as_ptr().align_offset(BLOCK);
    let block = &mut space[skip..skip + BLOCK];
    let plain = open(&data, rustix::fs::OFlags::empty())?;
    match operation {
        "create" => {
            let files = dir.join("files");
            let _ = fs::remove_dir_all(&files);
            fs::create_dir(&files)?;
            let times = time(count, |i| File::create(files.join(format!("f{i}"))).map(drop))?;
            fs::remove_dir_all(&files)?;
            Ok(times)
        }
        "open" => time(count, |_| File::open(&data).map(drop)),
        "write4k" => time(count, |i| plain.write_all_at(block, place(i, 4096))),
        "write4k+fsync" => {
            time(count, |i| plain.write_all_at(block, place(i, 4096)).and_then(|()| plain.sync_all()))
        }
        "write64+fsync" => {
            time(count, |i| plain.write_all_at(&block[..64], place(i, 64)).and_then(|()| plain.sync_all()))
        }
        "direct_read" => {
            let direct = open(&data, rustix::fs::OFlags::DIRECT)?;
            time(count, |i| direct.read_exact_at(block, place(i, 4096)))
        }
        "cached_read" => {
            let mut all = vec![0; FILE as usize];
            plain.read_exact_at(&mut all, 0)?;
            time(count, |i| plain.read_exact_at(block, place(i, 4096)))
        }
        other => Err(io::Error::other(format!("no operation '{other}'"))),
    }
}

fn main() -> io::Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let [_, dir, operation, count] = args.as_slice() else {
        eprintln!(
            "usage: mountbench DIR create|open|write4k|write4k+fsync|write64+fsync|direct_read|cached_read COUNT"
        );
        std::process::exit(2);
    };
    let count = count.parse().map_err(io::Error::other)?;
    let mut times = run(Path::new(dir), operation, count)?;
    times.sort_unstable();
    let mean = times.iter().sum::<u64>() / count.max(1);
    println!("{operation} {} {mean}", times[times.len() / 2]);
    Ok(())
}
