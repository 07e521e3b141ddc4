//! The record of an exported drive, as traffic by structure of the ext4 on it.
//!
//! ```text
//!   record:  mkfs ... setup ... | measured | ... umount
//!            contents kept       layout read at the first edge, then each write by place, else by content
//! ```

use super::Traffic;
use super::layout::{Blocks, Layout, by_content};
use granary_device::Structure;
use granary_lab::LabError;
use granary_trace::drive::{self as trace, Choice, Op, Written};
use granary_units::{PAGE_SIZE, Page};
use std::ops::Range;
use std::path::Path;

const BLOCK: u64 = PAGE_SIZE as u64;

/// Traffic of calls `measured.start + 1 ..= measured.end` of the record.
///
/// # Errors
/// The record cannot be read, or holds no ext4 of the known make.
pub fn classify(record: &Path, measured: Range<u64>) -> Result<Traffic, LabError> {
    let mut source = trace::open(record, &Choice::default())?.source;
    let mut blocks = Blocks::new();
    let mut layout = None;
    let mut traffic = Traffic::default();
    while let Some(event) = source.next_event()? {
        if event.nth > measured.end {
            break;
        }
        let counts = event.nth > measured.start;
        if counts && layout.is_none() {
            layout = Some(Layout::read(&blocks)?);
        }
        let layout = layout.as_ref().filter(|_| counts);
        match event.op {
            Op::Write(lpa, Written::Pages(pages), _) => {
                for (n, content) in (lpa.0..).zip(pages) {
                    if let Some(layout) = layout {
                        match layout.fixed(n).or_else(|| by_content(&content.0)) {
                            Some(what) => traffic.written[what as usize] += BLOCK,
                            None => traffic.unknown += BLOCK,
                        }
                    }
                    blocks.insert(n, content.0);
                }
            }
            Op::Read(lpa, count, _) => {
                if let Some(layout) = layout {
                    for n in lpa.0..lpa.0 + count {
                        // Never written: zeros.
                        let content = || by_content(blocks.get(&n).unwrap_or(&Page::ZERO));
                        let what = layout.fixed(n).or_else(content).unwrap_or(Structure::Data);
                        traffic.read[what as usize] += BLOCK;
                    }
                }
            }
            Op::Trim(lpa, count) => {
                for n in blocks.range(lpa.0..lpa.0 + count).map(|(n, _)| *n).collect::<Vec<_>>() {
                    blocks.remove(&n);
                }
            }
            Op::Flush if counts => traffic.flushes += 1,
            _ => {}
        }
    }
    Ok(traffic)
}
