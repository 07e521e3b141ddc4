//! Tests of this module.

use super::*;
use crate::files::WAL;
use crate::host::Host;
use crate::host::memory::MemoryHost;
use crate::redo::{Memory, Redo};
use crate::region::Region;
use crate::region::file_len;
use crate::wal::Way;

/// A checkpoint thread that comes late finds both halves full.
#[test]
fn of_two_full_halves_the_older_one_is_moved_first() {
    let mut w = Writer {
        wal: None,
        halves: [Half::Full, Half::Full],
        begins: [9, 5],
        next: 12,
        tickets: [0; 2],
        counters: JournalCounters::default(),
        buffer: Vec::new(),
    };
    assert_eq!(w.oldest_full(), Some(1));
    w.halves[1] = Half::Free;
    assert_eq!(w.oldest_full(), Some(0));
    w.halves[0] = Half::Active;
    assert_eq!(w.oldest_full(), None);
}

const LEN: u64 = 1 << 20;
const WRITERS: u64 = 8;

/// A journal with a tiny log, over a memory of [`LEN`] bytes in memory of this process.
fn tiny(host: &MemoryHost, inline: bool) -> Arc<Journal> {
    let open = |name| host.open(name, false).expect("a file");
    let (flash, wal, dram) = (open("flash"), open(WAL), open("dram"));
    dram.set_len(file_len(LEN)).expect("length");
    let mut regions = Regions::default();
    regions.put(Region::new(dram, Memory::Dram, LEN, false));
    let half = 16 << 10;
    let wal = Wal::start(wal, [1; 16], half, Way::Shared).expect("a log");
    Arc::new(Journal::new(Durability::Process, inline, half, 0, flash, Some(wal), regions))
}

/// Devices of one image call at the same time. All that they publish gets to its place, and none waits for
/// ever, however often the log changes its halves.
#[test]
#[allow(clippy::disallowed_methods)] // the journal's threads are the machine's
fn writers_that_find_a_half_full_at_the_same_time_lose_nothing() {
    for inline in [false, true] {
        let host = MemoryHost::new();
        let journal = tiny(&host, inline);
        let (done, finished) = std::sync::mpsc::channel();
        let checkpoints = (!inline).then(|| {
            let journal = journal.clone();
            std::thread::spawn(move || journal.run_checkpoints())
        });
        for writer in 0..WRITERS {
            let (journal, done) = (journal.clone(), done.clone());
            std::thread::spawn(move || {
                let room = (LEN / WRITERS) as usize;
                let mut mine = vec![0; room];
                for round in 0..1000usize {
                    // Some fill what others have left room in.
                    let len = if round % 3 == 0 { 2500 } else { 40 + round % 200 };
                    let at = round * 977 % (room - len);
                    mine[at..at + len].fill(round as u8);
                    let mut redo = Redo::new(writer * room as u64);
                    redo.put(at as u64, &mine[at..at + len]);
                    let mut frame = vec![0; FRAME];
                    redo.drain_into(&mut frame);
                    journal.publish_bytes(&mut frame).expect("published");
                }
                done.send((writer, mine)).expect("somebody waits");
            });
        }
        drop(done);
        // A hang is to be a failure of this test, and not of all.
        let patience = std::time::Duration::from_secs(20);
        let all: Vec<_> =
            (0..WRITERS).map(|_| finished.recv_timeout(patience).expect("no writer hangs")).collect();
        journal.stop();
        if let Some(thread) = checkpoints {
            thread.join().expect("ends");
        }
        assert!(journal.counters().checkpoints > 10);
        journal.close().expect("closed");
        for (writer, mine) in all {
            let mut kept = vec![0; mine.len()];
            let regions = journal.regions.lock();
            let region = regions.get(Memory::Dram).expect("it is there");
            region.read(writer * mine.len() as u64, &mut kept).expect("read");
            assert!(kept == mine, "writer {writer}, inline {inline}");
        }
    }
}
