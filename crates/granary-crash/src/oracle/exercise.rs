//! [`exercise`]: a recovered file system is used: filled, emptied, and its count of free space compared with
//! what went in.
//!
//! ```text
//!   statfs ── write until "no space", or 64 MiB ── sync, statfs ── read back ── remove ── sync, statfs
//! ```
//!
//! A file system that reads right after a power failure may have given a block to two files, or lost some:
//! both show when it is filled.

use granary_fs::{Cred, FsError, Result, StatFs};
use granary_sim::sleep;
use granary_units::{Dest, Nanos, Payload};
use granary_vfs::{OpenFlags, Posix, Process, Vfs};
use std::sync::Arc;

/// Bytes written at most.
const MOST: u64 = 64 << 20;
/// Bytes of one write.
const PIECE: u64 = 256 << 10;
/// Bytes of one file.
const FILE: u64 = 16 << 20;
/// A part of the blocks that may be unavailable though free, or come back later: one twelfth, as in the
/// suite's test of pools.
const SLACK: u64 = 12;
/// How often, and how long each time, cleaners are waited for.
const WAITS: (u32, Nanos) = (40, Nanos::from_millis(5));

const DIR: &str = "/exercise";

/// Fills the file system, empties it again, and says what is wrong. No other client may be at work; needs a
/// world. `counts_all`: no file lies where `statfs` does not count, as those do that SPFS has in persistent
/// memory alone.
pub fn exercise(vfs: &Arc<Vfs>, counts_all: bool) -> Vec<String> {
    let mut posix = Process::new(Arc::clone(vfs), Cred::ROOT);
    let mut wrong = Vec::new();
    if let Err(e) = all(&mut posix, counts_all, &mut wrong) {
        wrong.push(format!("used after recovery: {e}"));
    }
    posix.exit();
    wrong
}

fn path(n: u64) -> String {
    format!("{DIR}/{n}")
}

fn all(posix: &mut Process, counts_all: bool, wrong: &mut Vec<String>) -> Result<()> {
    posix.sync()?;
    let before = posix.statfs()?;
    let (written, full) = match posix.mkdir(DIR, 0o700) {
        Ok(()) | Err(FsError::Exists) => fill(posix)?,
        Err(FsError::NoSpace) => (0, true),
        Err(e) => return Err(e),
    };
    posix.sync()?;
    let after = posix.statfs()?;
    let slack = before.blocks / SLACK;
    // A file that is counted nowhere may have been too large to go below, and is in no one's count.
    let has_room = after.available_blocks() > slack && after.free_inodes * 100 > after.inodes;
    if full && counts_all && has_room {
        wrong.push(format!(
            "there is no space, and statfs tells {} of {} blocks",
            after.available_blocks(),
            after.blocks
        ));
    }
    let blocks = written / 4096;
    if counts_all && blocks > before.free_blocks + slack {
        wrong.push(format!("{blocks} blocks were written into {} free ones", before.free_blocks));
    }
    read_back(posix, written, wrong)?;
    empty(posix, written)?;
    let mut now = posix.statfs()?;
    // A file that was counted nowhere may have gone below meanwhile, where it takes space.
    let came_back = |now: &StatFs| !counts_all || now.available_blocks() + slack >= before.available_blocks();
    for _ in 0..WAITS.0 {
        if came_back(&now) {
            break;
        }
        sleep(WAITS.1);
        now = posix.statfs()?;
    }
    if !came_back(&now) {
        let (now, before) = (now.available_blocks(), before.available_blocks());
        wrong.push(format!("{now} blocks are available after all was removed, {before} were before"));
    }
    Ok(())
}

/// The word of a piece: no other has it.
fn word(at: u64) -> u64 {
    (at / 4096 + 1) * 0x0101_0101
}

/// Writes until there is no space; bytes written, and whether there was none.
fn fill(posix: &mut Process) -> Result<(u64, bool)> {
    let mut written = 0;
    while written < MOST {
        let fd = match posix.open(path(written / FILE), OpenFlags::RDWR | OpenFlags::CREAT, 0o600) {
            Ok(fd) => fd,
            Err(FsError::NoSpace) => return Ok((written, true)),
            Err(e) => return Err(e),
        };
        let data = Payload::Fill { word: word(written), len: PIECE as usize };
        let ends = (written + PIECE).is_multiple_of(FILE);
        let mut wrote = posix.pwrite(fd, data, written % FILE);
        // One for each file: who asks again and again is given faster memory by tiered file systems.
        if ends && wrote.is_ok() {
            wrote = posix.fdatasync(fd).and(wrote);
        }
        posix.close(fd)?;
        match wrote {
            Ok(n) if n as u64 == PIECE => written += PIECE,
            Ok(_) | Err(FsError::NoSpace) => return Ok((written, true)),
            Err(e) => return Err(e),
        }
    }
    Ok((written, false))
}

/// Every page of what was written has the word of its piece.
fn read_back(posix: &mut Process, written: u64, wrong: &mut Vec<String>) -> Result<()> {
    let mut piece = vec![0; PIECE as usize];
    for at in (0..written).step_by(PIECE as usize) {
        let fd = posix.open(path(at / FILE), OpenFlags::RDONLY, 0)?;
        posix.let_go(fd)?;
        let got = posix.pread(fd, Dest::Bytes(&mut piece), at % FILE);
        posix.close(fd)?;
        let right = word(at).to_le_bytes();
        if got? != piece.len() || piece.chunks_exact(8).any(|chunk| chunk != right) {
            wrong.push(format!(
                "{} of what was just written at {:#x} reads as something else",
                path(at / FILE),
                at % FILE
            ));
        }
    }
    Ok(())
}

fn empty(posix: &mut Process, written: u64) -> Result<()> {
    for n in 0..=written / FILE {
        match posix.unlink(path(n)) {
            Ok(()) | Err(FsError::NoEntry) => {}
            Err(e) => return Err(e),
        }
    }
    match posix.rmdir(DIR) {
        Ok(()) | Err(FsError::NoEntry) => {}
        Err(e) => return Err(e),
    }
    posix.sync()
}
