//! Content of a write over existing content: the file's word again, but for a share of the 64-byte lines.
//!
//! Filebench zeroes a thread's memory once and writes from there (threadflow.c, flowoplib.c: `memset(tf_mem,
//! 0, ...)`), so a rewrite changes nothing: the default share is 0. A share above makes mechanisms that
//! compare content (ByteFS's XOR of a page with its duplicate) see as many changed lines as a program would
//! make.
//!
//! The changed lines follow each other from a place that, like their content, is drawn from the instant of
//! the write; they wrap round at its end.

use granary_units::{LINE_SIZE, Nanos, Payload};

/// Content of a write.
pub(crate) enum Content {
    Fill(u64, usize),
    Bytes(Vec<u8>),
}

impl Content {
    /// `len` bytes at `offset` of a file full of `word`, of whose lines this share differs from what any
    /// other instant brings.
    pub fn new(word: u64, len: usize, offset: u64, share: f64, now: Nanos) -> Content {
        let first = offset / LINE_SIZE as u64;
        let lines = (offset + len as u64).div_ceil(LINE_SIZE as u64) - first;
        let changed = (lines as f64 * share).round() as u64;
        if changed == 0 {
            return Content::Fill(word, len);
        }
        let drawn = (now.0 ^ offset.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let (fresh, start) = (word ^ drawn | 2, drawn % lines);
        if changed >= lines {
            return Content::Fill(fresh, len);
        }
        let mut bytes = vec![0; len];
        Payload::Fill { word, len }.copy_to(offset, &mut bytes);
        for line in (0..changed).map(|i| first + (start + i) % lines) {
            let from = (line * LINE_SIZE as u64).max(offset);
            let to = ((line + 1) * LINE_SIZE as u64).min(offset + len as u64);
            let part = &mut bytes[(from - offset) as usize..(to - offset) as usize];
            Payload::Fill { word: fresh, len: part.len() }.copy_to(from, part);
        }
        Content::Bytes(bytes)
    }

    pub fn payload(&self) -> Payload<'_> {
        match self {
            Content::Fill(word, len) => Payload::Fill { word: *word, len: *len },
            Content::Bytes(bytes) => Payload::Bytes(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(share: f64, at: u64, now: u64) -> Vec<u8> {
        let content = Content::new(0x0102_0304_0506_0708, 4096, at, share, Nanos(now));
        let mut out = vec![0; 4096];
        content.payload().copy_to(at, &mut out);
        out
    }

    #[test]
    fn a_rewrite_changes_the_share_of_lines_that_is_asked_for() {
        for (share, changed) in [(0.0, 0), (0.001, 0), (0.125, 8), (0.5, 32), (1.0, 64)] {
            for now in [1, 77, 1_000_003] {
                let (old, new) = (bytes(0.0, 8192, now), bytes(share, 8192, now));
                let lines = old.chunks(64).zip(new.chunks(64)).filter(|(a, b)| a != b).count();
                assert_eq!(lines, changed, "share {share} at {now}");
            }
        }
        assert_ne!(bytes(0.5, 0, 5), bytes(0.5, 0, 6), "each instant brings something else");
        assert_eq!(bytes(0.5, 0, 5), bytes(0.5, 0, 5));
    }

    #[test]
    fn a_write_that_begins_within_a_line_keeps_the_word_in_phase() {
        let content = Content::new(0x0102_0304_0506_0708, 100, 3, 0.0, Nanos(1));
        let mut out = vec![0; 100];
        content.payload().copy_to(3, &mut out);
        assert_eq!(out[..5], [5, 4, 3, 2, 1]);
    }
}
