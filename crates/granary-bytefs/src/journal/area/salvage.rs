//! A damaged data journal, for a repair: which of its records still count.
//!
//! ```text
//!   record 7: pages 1 2     sound                                  goes home
//!   record 8: pages 2 3     page 3 is not what was written         lost, all of it: a write is there wholly
//!                                                                  or not at all
//!   record 9: pages 3 4     made when page 3 was that of record 8  lost
//!   record 10: page 5       sound, and independent                 goes home
//! ```
//!
//! With a damaged descriptor the pages of its record are not known, and so neither are the later records that
//! were made on them. All later records are lost then, as JBD2 ends its replay at the first block that fails
//! its checksum. Pages of lost records keep their content at home.
//!
//! Source: Linux, fs/jbd2/recovery.c (`do_one_pass`); the rest is our own.

use super::{OnMedia, bring_home, empty, records};
use crate::layout::Geometry;
use granary_device::Port;
use granary_fs::Result;
use std::collections::BTreeSet;

/// A record that does not count any more.
#[derive(Debug)]
pub struct Lost {
    /// Why, one sentence.
    pub why: String,
    /// The blocks that keep what they had; `None`: nobody knows which.
    pub blocks: Option<Vec<u32>>,
}

/// After RECOVER: moves the pages of all records that count to their places and empties the table; tells the
/// others. A second run after an interruption decides the same.
///
/// # Errors
/// Of the drive.
pub fn salvage(port: &Port, g: &Geometry) -> Result<Vec<Lost>> {
    let (mut kept, mut gone) = (Vec::new(), Vec::new());
    let (mut changed, mut all) = (BTreeSet::new(), false);
    for record in records(port, g)? {
        let why = reason(&record, &changed, all);
        let Some(why) = why else {
            kept.push(record);
            continue;
        };
        changed.extend(record.blocks.iter().flatten().copied());
        all |= record.blocks.is_none();
        gone.push((why, record));
    }
    // The newest first: what a record depends on goes after it.
    gone.iter().rev().try_for_each(|(_, record)| empty(port, g, record))?;
    bring_home(port, g, &kept)?;
    Ok(gone.into_iter().map(|(why, record)| Lost { why, blocks: record.blocks }).collect())
}

/// Why a record does not count. `changed`: blocks of lost records before it; `all`: of one of them nobody
/// knows the blocks.
fn reason(record: &OnMedia, changed: &BTreeSet<u32>, all: bool) -> Option<String> {
    if let Err(what) = &record.pages {
        return Some(what.clone());
    }
    let number = record.seq.unwrap_or_default();
    if all {
        return Some(format!(
            "journal area: record {number} of the data journal may have been made on what is lost"
        ));
    }
    let blocks = record.blocks.as_ref()?;
    blocks
        .iter()
        .any(|b| changed.contains(b))
        .then(|| format!("journal area: record {number} of the data journal was made on what is lost"))
}
