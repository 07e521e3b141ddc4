//! [`Pool`]: which entries of a fileset exist, which are in use, and which one a flowop gets next.
//!
//! ```text
//!   entry:  absent <──────────────> present      (create, delete; makedir, removedir)
//!           free   <── pick, release ──> busy    only while one call works on it
//!           open count                           while threads have it open; such a file is not deleted
//! ```
//!
//! Flowops do not choose at random. Each takes the next entry of the wanted kind after the one taken before,
//! passing over busy ones. There is one rotor for present entries and one for absent ones; a thread with
//! `opennext` has its own. Only the entries that exist at first are random. `indexed` gives the place to look
//! from.
//!
//! Where all entries of the wanted kind are busy, the thread waits. (Filebench waits only where *all* entries
//! are busy, and gives up otherwise; waiting never turns a run that works into one that fails.)
//!
//! Memory: 4 bytes and 3 bits per entry.
//!
//! Source: Filebench 1.5-alpha3, fileset picking.

use super::halt::{Halt, Monitor, Waited};
use super::index_set::IndexSet;
use granary_units::Nanos;

const BUSY: u32 = 1 << 31;

/// Which entries are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Present,
    Absent,
}

/// Where to start looking.
pub(crate) enum From<'a> {
    /// After what was picked last, by anybody.
    Last,
    /// After what this thread picked last.
    Own(&'a mut u32),
    /// Here.
    Index(u64),
}

/// Results of a pick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Picked {
    /// This entry, which is now busy.
    Entry(u32),
    /// There is no such entry.
    Nothing,
    /// The run is over.
    Over,
}

/// The entries of one kind (files, leaf directories, directories) of a fileset.
pub(crate) struct Pool {
    monitor: Monitor<State>,
}

struct State {
    /// Open count, and the busy bit.
    entries: Vec<u32>,
    present: IndexSet,
    absent: IndexSet,
    present_rotor: usize,
    absent_rotor: usize,
    waiting: u32,
}

/// Changes of an entry's open count when it is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opens {
    Same,
    OneMore,
    OneLess,
    None,
}

impl Pool {
    /// `count` entries, of which `present` exist.
    pub(crate) fn new(count: usize, present: IndexSet) -> Pool {
        let mut absent = IndexSet::full(count);
        let mut at = 0;
        for _ in 0..present.len() {
            let i = present.next_around(at).expect("as many members as its length says");
            absent.remove(i);
            at = i + 1;
        }
        let entries = vec![0; count];
        Pool {
            monitor: Monitor::new(State {
                entries,
                present,
                absent,
                present_rotor: 0,
                absent_rotor: 0,
                waiting: 0,
            }),
        }
    }

    /// Takes an entry for one call.
    pub(crate) fn pick(&self, halt: &Halt, wanted: Wanted, mut from: From<'_>) -> Picked {
        let mut state = self.monitor.lock();
        loop {
            match state.find(wanted, &mut from) {
                Found::Free(entry) => {
                    state.entries[entry] |= BUSY;
                    return Picked::Entry(entry as u32);
                }
                Found::Nothing => return Picked::Nothing,
                Found::AllBusy => {
                    state.waiting += 1;
                    let mut first = true;
                    // Leaves at the first notification: what was found busy is looked at again.
                    let waited = self
                        .monitor
                        .wait_until(&mut state, halt, Nanos::MAX, |_| !std::mem::replace(&mut first, false));
                    state.waiting -= 1;
                    if waited == Waited::Over {
                        return Picked::Over;
                    }
                }
            }
        }
    }

    /// Takes this entry, waiting while another call works on it; false where the run is over.
    pub(crate) fn take(&self, halt: &Halt, entry: u32) -> bool {
        let mut state = self.monitor.lock();
        state.waiting += 1;
        let waited = self
            .monitor
            .wait_until(&mut state, halt, Nanos::MAX, |state| state.entries[entry as usize] & BUSY == 0);
        state.waiting -= 1;
        if waited == Waited::Ready {
            state.entries[entry as usize] |= BUSY;
        }
        waited == Waited::Ready
    }

    /// How many threads have it open.
    pub(crate) fn opens(&self, entry: u32) -> u32 {
        self.monitor.lock().entries[entry as usize] & !BUSY
    }

    /// Gives an entry back; `exists` says whether it does now, where that changed.
    pub(crate) fn release(&self, entry: u32, exists: Option<bool>, opens: Opens) {
        let mut state = self.monitor.lock();
        let i = entry as usize;
        match exists {
            Some(true) => {
                state.present.insert(i);
                state.absent.remove(i);
            }
            Some(false) => {
                state.present.remove(i);
                state.absent.insert(i);
            }
            None => {}
        }
        let count = state.entries[i] & !BUSY;
        state.entries[i] = match opens {
            Opens::Same => count,
            Opens::OneMore => count + 1,
            // Zero where it was deleted while open: then nobody counts as having it open.
            Opens::OneLess => count.saturating_sub(1),
            Opens::None => 0,
        };
        if state.waiting > 0 {
            drop(state);
            self.monitor.notify_all();
        }
    }

    /// Forgets who has what open or in use: the threads are gone.
    pub(crate) fn settle(&self) {
        self.monitor.lock().entries.fill(0);
    }

    /// Wakes all who wait; for the end of a run.
    pub(crate) fn wake(&self) {
        super::halt::Wake::wake(&self.monitor);
    }

    #[cfg(test)]
    pub(crate) fn present(&self) -> usize {
        self.monitor.lock().present.len()
    }
}

enum Found {
    Free(usize),
    AllBusy,
    Nothing,
}

impl State {
    fn find(&mut self, wanted: Wanted, from: &mut From<'_>) -> Found {
        let (set, rotor) = match wanted {
            Wanted::Present => (&self.present, &mut self.present_rotor),
            Wanted::Absent => (&self.absent, &mut self.absent_rotor),
        };
        let at = match from {
            From::Last => *rotor,
            From::Own(own) => **own as usize,
            From::Index(i) => *i as usize,
        };
        let Some(first) = set.next_around(at) else { return Found::Nothing };
        match from {
            From::Last => *rotor = first + 1,
            From::Own(own) => **own = first as u32 + 1,
            From::Index(_) => {}
        }
        let mut entry = first;
        while self.entries[entry] & BUSY != 0 {
            entry = set.next_around(entry + 1).expect("the set has a member");
            if entry == first {
                return Found::AllBusy;
            }
        }
        Found::Free(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(present: &[usize], count: usize) -> Pool {
        let mut set = IndexSet::empty(count);
        present.iter().for_each(|&i| set.insert(i));
        Pool::new(count, set)
    }

    #[test]
    fn picks_in_rotation_and_passes_over_busy_entries() {
        let halt = Halt::new(Nanos::MAX, None);
        let pool = pool(&[1, 2, 5], 8);
        let pick = |wanted| pool.pick(&halt, wanted, From::Last);
        assert_eq!(pick(Wanted::Present), Picked::Entry(1));
        assert_eq!(pick(Wanted::Present), Picked::Entry(2));
        pool.release(1, None, Opens::OneMore);
        assert_eq!(pool.opens(1), 1);
        assert_eq!(pick(Wanted::Present), Picked::Entry(5));
        // 2 and 5 are busy.
        assert_eq!(pick(Wanted::Present), Picked::Entry(1));
        assert_eq!(pick(Wanted::Absent), Picked::Entry(0));
        assert_eq!(pick(Wanted::Absent), Picked::Entry(3));
        assert_eq!(pool.pick(&halt, Wanted::Absent, From::Index(7)), Picked::Entry(7));
        // 7 is busy and the last; the search goes on at the start.
        assert_eq!(pool.pick(&halt, Wanted::Absent, From::Index(7)), Picked::Entry(4));
    }

    #[test]
    fn an_entry_moves_between_absent_and_present() {
        let halt = Halt::new(Nanos::MAX, None);
        let pool = pool(&[0], 2);
        assert_eq!(pool.pick(&halt, Wanted::Absent, From::Last), Picked::Entry(1));
        pool.release(1, Some(true), Opens::OneMore);
        assert_eq!(pool.pick(&halt, Wanted::Absent, From::Last), Picked::Nothing);
        assert_eq!(pool.present(), 2);
        assert!(pool.take(&halt, 0));
        pool.release(0, Some(false), Opens::None);
        assert_eq!(pool.pick(&halt, Wanted::Present, From::Last), Picked::Entry(1));
    }

    #[test]
    fn threads_with_a_rotor_of_their_own_start_at_the_first_entry() {
        let halt = Halt::new(Nanos::MAX, None);
        let pool = pool(&[0, 1, 2], 3);
        for _ in 0..2 {
            let mut own = 0;
            let mut seen = Vec::new();
            for _ in 0..4 {
                let Picked::Entry(entry) = pool.pick(&halt, Wanted::Present, From::Own(&mut own)) else {
                    panic!("three entries exist")
                };
                pool.release(entry, None, Opens::Same);
                seen.push(entry);
            }
            assert_eq!(seen, [0, 1, 2, 0]);
        }
    }
}
