//! Tests of this module.

use super::*;
use granary_device::{Command, Drive, DriveError, DriveInfo, LinkTraffic};
use granary_sim::rng::Stream;
use granary_sim::{World, now, spawn};
use granary_units::{ByteAddr, Nanos, TxId};

/// A drive whose page `n` repeats the word `n + 1` and that takes 10 us per read command.
#[derive(Default)]
struct Numbered {
    commands: parking_lot::Mutex<Vec<(u64, usize)>>,
}

impl Drive for Numbered {
    granary_device::plain_drive!();

    fn info(&self) -> DriveInfo {
        DriveInfo { pages: 1000, blocks: true, max_transfer: 128, ..DriveInfo::default() }
    }
    fn submit(&self, now: Nanos, command: Command<'_>) -> Result<Nanos, DriveError> {
        let Command::Read { lpa, out, .. } = command else { return Err(DriveError::Unsupported("this")) };
        if lpa.0 + out.len() as u64 > 1000 {
            return Err(DriveError::Unreadable(lpa.0));
        }
        self.commands.lock().push((lpa.0, out.len()));
        for (i, page) in out.iter_mut().enumerate() {
            *page = Page::word(lpa.0 + i as u64 + 1);
        }
        Ok(now + Nanos::from_micros(10))
    }
    fn load(&self, _: Nanos, _: ByteAddr, _: &mut [u8], _: Structure) -> Result<Nanos, DriveError> {
        Err(DriveError::Unsupported("load"))
    }
    fn store_from(
        &self,
        _: u16,
        _: Nanos,
        _: ByteAddr,
        _: &[u8],
        _: TxId,
        _: Structure,
    ) -> Result<Nanos, DriveError> {
        Err(DriveError::Unsupported("store"))
    }
    fn flush_lines(&self, now: Nanos, _: ByteAddr, _: usize) -> Result<Nanos, DriveError> {
        Ok(now)
    }
    fn verify(&self, now: Nanos) -> Result<Nanos, DriveError> {
        Ok(now)
    }
    fn settle(&self, now: Nanos) -> Result<Nanos, DriveError> {
        Ok(now)
    }
    fn power_fail(&self, _: Nanos, _: &mut Stream) {}
    fn power_on(&self, now: Nanos) -> Result<Nanos, DriveError> {
        Ok(now)
    }
    fn track_in_flight(&self, _: bool) {}
    fn traffic(&self) -> LinkTraffic {
        LinkTraffic::default()
    }
    fn check(&self) -> Result<(), Vec<String>> {
        Ok(())
    }
}

fn word(block: &Block) -> u64 {
    block.with(|b| u64::from_le_bytes(b[..8].try_into().expect("eight bytes")))
}

fn cache(pages: u64) -> (Arc<Numbered>, Arc<BlockCache>) {
    let drive = Arc::new(Numbered::default());
    let cache = BlockCache::new(Port::new(drive.clone()), Bytes(pages * PAGE_SIZE as u64));
    (drive, Arc::new(cache))
}

#[test]
fn tasks_that_want_one_block_read_it_once() {
    let (drive, cache) = cache(100);
    World::default()
        .run(move || {
            let tasks: Vec<_> = (0..10)
                .map(|_| {
                    let cache = cache.clone();
                    spawn("reader", move || word(&cache.get(Lpa(7), Structure::Inode).expect("readable")))
                })
                .collect();
            assert!(tasks.into_iter().all(|t| t.join() == 8));
            assert_eq!(now(), Nanos::from_micros(10));
        })
        .expect("no deadlock");
    assert_eq!(*drive.commands.lock(), [(7, 1)]);
}

#[test]
fn a_window_reads_only_what_is_missing() {
    let (drive, cache) = cache(100);
    cache.get(Lpa(35), Structure::Inode).expect("readable");
    cache.get_window(Lpa(40), 32..64, Structure::Inode).expect("readable");
    assert_eq!(word(&cache.cached(Lpa(63)).expect("read ahead")), 64);
    assert_eq!(*drive.commands.lock(), [(35, 1), (32, 3), (36, 28)]);
}

#[test]
fn pinned_and_held_blocks_stay_and_others_make_room() {
    let (_, cache) = cache(10);
    let held = cache.get(Lpa(1), Structure::Inode).expect("readable");
    let pinned = cache.get(Lpa(2), Structure::Inode).expect("readable");
    pinned.pin();
    pinned.change(|b| b[0] = 99);
    drop(pinned);
    for n in 10..200 {
        cache.get(Lpa(n), Structure::Inode).expect("readable");
        assert!(cache.len() <= 10);
    }
    assert!(cache.cached(Lpa(1)).is_some_and(|b| Arc::ptr_eq(&b, &held)));
    assert_eq!(cache.cached(Lpa(2)).expect("pinned").with(|b| b[0]), 99);
}

#[test]
fn a_failed_read_leaves_nothing_in_use_and_is_tried_again() {
    let (_, cache) = cache(10);
    for _ in 0..2 {
        assert!(cache.get(Lpa(1000), Structure::Inode).is_err());
        assert!(cache.cached(Lpa(1000)).is_none());
    }
}

/// Half of the window is beyond the drive's end.
#[test]
fn a_block_is_read_although_its_neighbours_cannot_be() {
    let (drive, cache) = cache(10);
    let end = drive.info().pages;
    let last = cache.get_window(Lpa(end - 1), end - 4..end + 4, Structure::Inode).expect("it can be read");
    assert_eq!(word(&last), end);
    assert!(cache.get_window(Lpa(end), end - 4..end + 4, Structure::Inode).is_err());
}

/// Of many nearly empty blocks only the last ones are bytes; packing changes no content, and neither does
/// what follows.
#[test]
fn old_blocks_of_a_few_names_are_packed() {
    let many = 3 * YOUNG as u64;
    let (_, cache) = cache(many);
    let (mark, size) = (|n: u64| n.to_le_bytes(), PAGE_SIZE);
    for n in 0..many {
        cache.fresh(Lpa(n), Structure::Dentry).change(|b| b[size - 8..].copy_from_slice(&mark(n)));
    }
    let block = |n| cache.cached(Lpa(n)).expect("in memory");
    let wide = (0..many).filter(|n| block(*n).content.read().as_bytes().is_some()).count();
    assert!((1..=YOUNG).contains(&wide), "{wide} of {many} are bytes");
    for n in (0..many).step_by(5) {
        let before = block(n).snapshot();
        block(n).change(|b| b[0] = 7);
        assert_eq!((before.to_bytes()[0], block(n).with(|b| b[0])), (0, 7));
    }
    assert!((0..many).all(|n| block(n).with(|b| b[size - 8..] == mark(n))));
}

#[test]
fn forgetting_and_reallocating_for_ever_takes_no_memory() {
    let (_, cache) = cache(10);
    for _ in 0..10_000 {
        cache.fresh(Lpa(5), Structure::Dentry);
        cache.forget(Lpa(5));
    }
    assert!(cache.inner.lock().clock.len() <= 100);
}
