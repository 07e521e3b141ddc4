//! Which interface a dirty page takes: fewer dirty lines than a threshold go by byte.
//!
//! ```text
//!   ratio   the threshold is an option; 8 of 64 lines are the paper's R < 1/8
//!   cost    time of n lines by byte = first + (n - 1) * next        measured once, at mount, on a block of
//!                                                                   the
//!           time of a block         = block                         journal area that holds nothing
//!           threshold: the largest n for which the lines are not slower, plus one
//! ```
//!
//! Both times are what a caller of `fsync` waits: stores, write-backs and the verify against one block
//! command. The cost policy knows nothing of what happens later: lines in the write log cost log cleaning (a
//! page read and a program), a block write costs a program at once. `granary run oltp --fs bytefs --set
//! fs.bytefs.policy=cost` (`=ratio`) shows what that comes to.
//!
//! On a clock that does not model the drive's latencies (a mount without pacing) nothing can be measured; the
//! paper's ratio is used.
//!
//! Source: ByteFS section 4.6 for the ratio; the cost policy is ours.

use granary_device::{Port, Structure};
use granary_fs::Result;
use granary_sim::now;
use granary_units::{LINE_SIZE, LINES_PER_PAGE, Lpa, Nanos, Page, TxId};

/// Lines of the paper's ratio.
pub const PAPER: u32 = 8;
/// Lines of the second measurement.
const MANY: usize = 17;

/// The threshold in lines at which a block is as fast, measured on block `scratch`, which nobody uses.
///
/// # Errors
/// Of the drive.
pub fn break_even(port: &Port, scratch: Lpa) -> Result<u32> {
    let timed = |action: &dyn Fn() -> Result<()>| -> Result<Nanos> {
        let begin = now();
        action()?;
        Ok(now() - begin)
    };
    let lines = |n: usize| {
        timed(&|| {
            port.store(scratch.byte(), &vec![0; n * LINE_SIZE], TxId::NONE, Structure::Journal)?;
            Ok(port.verify()?)
        })
    };
    let (first, many) = (lines(1)?, lines(MANY)?);
    let block = timed(&|| Ok(port.write(scratch, &[Page::ZERO], Structure::Journal)?))?;
    Ok(threshold(first, many, block))
}

fn threshold(first: Nanos, many: Nanos, block: Nanos) -> u32 {
    if first == Nanos::ZERO || block == Nanos::ZERO {
        return PAPER;
    }
    if block < first {
        return 0;
    }
    let next = (many.0.saturating_sub(first.0) / (MANY as u64 - 1)).max(1);
    // A page all of whose lines are dirty always goes by block: it then leaves nothing in the write log.
    (2 + (block.0 - first.0) / next).min(LINES_PER_PAGE as u64) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_threshold_is_where_lines_become_slower_than_a_block() {
        // 5 us for the first line, 100 ns for each further one, 7 us for a block: 21 lines take as long.
        let (first, many) = (Nanos(5_000), Nanos(5_000 + 16 * 100));
        assert_eq!(threshold(first, many, Nanos(7_000)), 22);
        assert_eq!(threshold(first, many, Nanos(4_000)), 0);
        assert_eq!(threshold(first, many, Nanos(100_000)), 64);
        assert_eq!(threshold(Nanos::ZERO, Nanos::ZERO, Nanos::ZERO), PAPER);
    }
}
