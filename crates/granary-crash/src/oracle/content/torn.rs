//! Pages that show a part of a write, where a file system promises that none does.
//!
//! ```text
//!   page   |oooooooo|wwwwwwww|oooooooo|     a write that no flush covers: o o o or o w o, never o wo o
//!                   ^^^^^^^^ compared
//! ```
//!
//! A byte counts where it shows the certain content or this one write. Where a third change may show, nobody
//! can say which it was.

use super::{Content, Kind, Op};
use crate::oracle::stamp::Stamps;
use std::ops::Range;

/// Bytes of a page.
const PAGE: u64 = 4096;

impl Content {
    /// Bytes read at `at` behind a power failure: each write that may or may not be there is there wholly or
    /// not at all, in each page.
    pub(crate) fn no_page_is_torn(&self, stamps: &Stamps, at: u64, bytes: &[u8]) -> Result<(), String> {
        let read = at..at + bytes.len() as u64;
        for op in &self.ops {
            // A store through a mapping may be half done when its page is written back. The cache keeps a
            // write that the drive failed, and its bytes go to media with whatever is written into their
            // lines later.
            let Kind::Write { source, floating: false, grows: true, failed: false, .. } = &op.kind else {
                continue;
            };
            let range = meet(&op.covers(), &read);
            if stamps.durable(op.stamp) || range.is_empty() {
                continue;
            }
            let mut parts = self.of_this_alone(op, &range).into_iter().peekable();
            while let Some(page) = parts.peek().map(|part| part.start / PAGE) {
                let (mut old, mut new, mut from) = (true, true, None);
                while let Some(part) = parts.next_if(|part| part.start / PAGE == page) {
                    let got = &bytes[(part.start - at) as usize..(part.end - at) as usize];
                    old &= self.base.at(part.start).matches(part.start, got);
                    new &= source.matches(part.start, got);
                    from.get_or_insert(part.start);
                }
                // The page of an old end may be written before the size is: without what lies beyond that.
                let longer = self.ops.iter().map(|op| op.covers().end).filter(|end| *end > self.base_size);
                let has_end =
                    longer.chain([self.base_size]).any(|end| end > page * PAGE && end < (page + 1) * PAGE);
                if !old && !new && !has_end {
                    let (from, end) = (from.unwrap_or_default(), ((page + 1) * PAGE).min(range.end));
                    return Err(format!("a page is torn: of {from:#x}..{end:#x} a write is there in part"));
                }
            }
        }
        Ok(())
    }

    /// The parts of `range` which no change but this one may show in; cut at pages, and where the certain
    /// content changes its source.
    fn of_this_alone(&self, op: &Op, range: &Range<u64>) -> Vec<Range<u64>> {
        let others = || self.ops.iter().filter(|other| other.stamp != op.stamp).map(Op::covers);
        let mut cuts = vec![range.start, range.end];
        self.base.bounds(range, &mut cuts);
        cuts.extend((range.start / PAGE + 1..=(range.end - 1) / PAGE).map(|page| page * PAGE));
        cuts.extend(others().flat_map(|c| [c.start, c.end]).filter(|cut| range.contains(cut)));
        cuts.sort_unstable();
        cuts.dedup();
        let parts = cuts.windows(2).map(|w| w[0]..w[1]);
        parts.filter(|part| others().all(|c| meet(&c, part).is_empty())).collect()
    }
}

fn meet(a: &Range<u64>, b: &Range<u64>) -> Range<u64> {
    a.start.max(b.start)..a.end.min(b.end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use granary_units::Payload;

    const ONES: u64 = 0x0101_0101_0101_0101;

    /// Two pages of ones, certain; then a write of twos over some of them that nobody flushed.
    fn overwritten(range: Range<u64>) -> (Stamps, Content) {
        let (mut stamps, mut content) = (Stamps::new(), Content::default());
        for (range, word) in [(0..2 * PAGE, ONES), (range, 2 * ONES)] {
            let horizon = stamps.tick();
            content.keep(&mut stamps, horizon);
            let by = stamps.begin();
            let data = Payload::Fill { word, len: (range.end - range.start) as usize };
            content.begin_write(&stamps, by, Some(range.start), data);
            stamps.end(by);
        }
        (stamps, content)
    }

    fn bytes(new: Range<usize>) -> Vec<u8> {
        let mut bytes = vec![1; 2 * PAGE as usize];
        bytes[new].fill(2);
        bytes
    }

    #[test]
    fn a_page_with_a_part_of_a_write_is_torn() {
        let (stamps, content) = overwritten(100..300);
        let torn = |new| content.no_page_is_torn(&stamps, 0, &bytes(new)).is_err();
        assert!(!torn(0..0) && !torn(100..300));
        assert!(torn(100..299) && torn(101..300) && torn(150..151));
    }

    #[test]
    fn a_write_that_the_drive_failed_may_be_there_in_part() {
        let (stamps, mut content) = overwritten(100..300);
        let by = content.ops.last().expect("the write").stamp;
        content.fail_write(by);
        assert!(content.no_page_is_torn(&stamps, 0, &bytes(150..151)).is_ok());
    }

    #[test]
    fn each_page_of_a_write_is_old_or_new_by_itself() {
        let (stamps, content) = overwritten(4000..4200);
        let torn = |new| content.no_page_is_torn(&stamps, 0, &bytes(new)).is_err();
        assert!(!torn(4000..4096) && !torn(4096..4200));
        assert!(torn(4000..4095) && torn(4000..4097));
    }

    #[test]
    fn bytes_that_another_change_may_have_set_say_nothing() {
        let (mut stamps, mut content) = overwritten(100..300);
        let by = stamps.begin();
        content.begin_write(&stamps, by, Some(200), Payload::Fill { word: 3 * ONES, len: 100 });
        let torn = |new| content.no_page_is_torn(&stamps, 0, &bytes(new)).is_err();
        assert!(!torn(100..200) && !torn(100..250) && torn(100..150));
    }
}
