//! Tests of this module.

use super::*;

struct File {
    stamps: Stamps,
    content: Content,
}

impl File {
    fn new() -> File {
        File { stamps: Stamps::new(), content: Content::default() }
    }

    fn begin(&mut self, pos: Option<u64>, word: u64, len: usize) -> StampId {
        let by = self.stamps.begin();
        self.content.begin_write(&self.stamps, by, pos, Payload::Fill { word, len });
        by
    }

    fn write(&mut self, pos: u64, word: u64, len: usize) -> StampId {
        let by = self.begin(Some(pos), word, len);
        self.stamps.end(by);
        self.content.end_write(by, pos, len as u64);
        by
    }

    fn truncate(&mut self, size: u64) {
        let by = self.stamps.begin();
        self.content.begin_truncate(by, size);
        self.stamps.end(by);
    }

    fn fsync(&mut self) {
        let horizon = self.stamps.tick();
        self.content.keep(&mut self.stamps, horizon);
    }

    fn sizes(&self) -> (u64, u64) {
        self.content.size_range(&self.stamps, 0)
    }

    /// Whether the byte at `at` may be `byte` after a power failure.
    fn may(&self, at: u64, byte: u8) -> bool {
        self.content.explain(&self.stamps, 0, at, &[byte]).is_ok()
    }
}

#[test]
fn synced_bytes_are_certain_and_unsynced_ones_possible() {
    let mut f = File::new();
    f.write(0, 0x0101_0101_0101_0101, 4096);
    assert_eq!(f.sizes(), (0, 4096));
    assert!(f.may(5, 0) && f.may(5, 1) && !f.may(5, 2));
    f.fsync();
    assert_eq!(f.sizes(), (4096, 4096));
    assert!(f.may(5, 1) && !f.may(5, 0), "a lost synced byte is a violation");
    f.write(0, 0x0202_0202_0202_0202, 8192);
    assert_eq!(f.sizes(), (4096, 8192));
    assert!(f.may(5, 1) && f.may(5, 2) && !f.may(5, 0), "overwritten bytes are old or new, never zero");
    assert!(f.may(5000, 0) && f.may(5000, 2) && !f.may(5000, 1), "no stale data in the grown part");
}

#[test]
fn a_truncation_may_show_until_it_must() {
    let mut f = File::new();
    f.write(0, u64::MAX, 4096);
    f.fsync();
    f.truncate(100);
    f.truncate(4096);
    assert_eq!(f.sizes(), (100, 4096));
    assert!(f.may(200, 0xff) && f.may(200, 0) && !f.may(50, 0));
    f.fsync();
    assert_eq!(f.sizes(), (4096, 4096));
    assert!(!f.may(200, 0xff) && f.may(200, 0), "cut bytes do not come back");
}

#[test]
fn a_punched_range_is_old_or_zero_until_it_must_be_zero_and_a_reservation_only_grows() {
    let mut f = File::new();
    f.write(0, u64::MAX, 4096);
    f.fsync();
    let by = f.stamps.begin();
    f.content.begin_space(by, 100..5000, Allocate::PunchHole);
    f.stamps.end(by);
    assert!(f.may(200, 0xff) && f.may(200, 0) && !f.may(50, 0));
    assert_eq!(f.sizes(), (4096, 4096));
    f.fsync();
    assert!(!f.may(200, 0xff) && f.may(200, 0) && f.may(50, 0xff));
    let by = f.stamps.begin();
    f.content.begin_space(by, 0..9000, Allocate::Reserve { keep_size: false });
    f.stamps.end(by);
    assert_eq!(f.sizes(), (4096, 9000));
    f.fsync();
    assert_eq!(f.sizes(), (9000, 9000));
    assert!(f.may(50, 0xff) && !f.may(50, 0) && f.may(8000, 0));
}

#[test]
fn space_is_reserved_until_a_cut_is_certain() {
    let mut f = File::new();
    f.write(0, u64::MAX, 4096);
    f.fsync();
    assert_eq!(f.content.reserved(), 0, "a write reserves nothing beyond the end");
    let by = f.stamps.begin();
    f.content.begin_space(by, 4096..9000, Allocate::Reserve { keep_size: true });
    f.stamps.end(by);
    assert_eq!(f.content.reserved(), 9000);
    f.fsync();
    f.truncate(100);
    assert_eq!(f.content.reserved(), 9000, "the cut may be lost");
    f.fsync();
    assert_eq!(f.content.reserved(), 100);
    let by = f.stamps.begin();
    f.content.begin_space(by, 4096..9000, Allocate::Reserve { keep_size: true });
    f.stamps.end(by);
    f.truncate(100);
    f.fsync();
    assert_eq!(f.content.reserved(), 9000, "a cut to the size that it has may leave space");
}

#[test]
fn a_write_that_was_under_way_may_have_left_blocks_beyond_the_end() {
    let mut f = File::new();
    f.write(0, u64::MAX, 4096);
    f.fsync();
    f.truncate(100);
    let reserved = |f: &File| {
        let mut found = Content::certain(Segments::default(), 100);
        found.inherit(&f.content);
        assert!(found.was_cut());
        found.reserved()
    };
    assert_eq!(reserved(&f), 0, "nothing was written");
    f.begin(Some(5000), u64::MAX, 64);
    assert_eq!(reserved(&f), 5064);
}

#[test]
fn of_two_overlapping_writes_either_may_have_been_the_last() {
    let mut f = File::new();
    let a = f.begin(Some(0), u64::MAX, 64);
    f.write(0, 0x0101_0101_0101_0101, 64);
    f.stamps.end(a);
    f.content.end_write(a, 0, 64);
    f.fsync();
    assert!(f.may(0, 0xff) && f.may(0, 1) && !f.may(0, 0));
    assert_eq!(f.sizes(), (64, 64));
    f.write(0, 0, 8);
    f.fsync();
    assert!(f.may(0, 0) && !f.may(0, 1) && f.may(8, 1) && f.may(8, 0xff));
}

#[test]
fn an_append_in_flight_lies_somewhere_beyond_the_end() {
    let mut f = File::new();
    f.write(0, u64::MAX, 64);
    f.fsync();
    f.begin(None, 0x0101_0101_0101_0101, 10);
    let b = f.begin(None, 0x0202_0202_0202_0202, 10);
    assert_eq!(f.sizes(), (64, 64 + 20 + 10));
    assert!(f.may(75, 1) && f.may(65, 2) && f.may(65, 0) && !f.may(63, 1) && !f.may(65, 0xff));
    f.stamps.end(b);
    f.content.end_write(b, 64, 10);
    f.fsync();
    assert!(f.may(65, 2) && !f.may(65, 0));
}

#[test]
fn a_write_that_syncs_itself_promises_its_own_bytes_only() {
    let mut f = File::new();
    f.write(0, 0x0101_0101_0101_0101, 64);
    let w = f.write(128, 0x0202_0202_0202_0202, 64);
    f.stamps.keep(w, Tick::MAX - 1);
    f.content.fold(&mut f.stamps);
    assert_eq!(f.sizes(), (192, 192));
    assert!(f.may(0, 0) && f.may(0, 1) && f.may(130, 2) && !f.may(130, 0) && !f.may(100, 2));
}
