//! The turn on a channel: handing it over, and waiting for it.
//!
//! ```text
//!   FREE ── client ──> TAKEN: data, command ──> ASKED ── server: does it, answer
//!                                                     ──> ANSWERED ── client: copies it ──> FREE
//!   FREE ── server, where nothing was asked for a second
//!                  ──> RESTS: gives the memory of the data area back ──> FREE
//!     any of them ── server: ends ──> ENDED
//! ```
//!
//! A side that waits spins a little and then sleeps on the turn (futex). Before it sleeps it says so, and
//! looks once more. The side that hands the turn over looks whether the other sleeps. One of the two sees the
//! other, because both do so in one order (SeqCst).
//!
//! Where the process has one processor only, spinning would keep the other side from running: it sleeps at
//! once. So do both sides where more channels are busy than there are pairs of processors ([`Crowd`]):
//! spinning there keeps threads that have work from running.
//!
//! A client that writes arbitrary values into these words can make the server look at commands that it did
//! not mean, or sleep until the next second; nothing else.

use crate::segment::Segment;
use crate::wire::{Answer, Command, Op};
use rustix::event::Timespec;
use rustix::thread::futex;

use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

const FREE: u32 = 0;
const ASKED: u32 = 1;
const ANSWERED: u32 = 2;
const ENDED: u32 = 3;
const TAKEN: u32 = 4;
const RESTS: u32 = 5;

/// How long a client sleeps before it looks whether the server is still there.
pub const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
/// How long a server sleeps before it looks whether it is to end: of that it is woken, unless the client has
/// written to the turn.
const IDLE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Rounds of spinning before sleeping where there are several processors. Spinning for as long as sleeping
/// would cost never wastes more than that (Karlin et al., "Empirical Studies of Competitive Spinning for a
/// Shared-Memory Multiprocessor", SOSP '91). The example `roundtrip` on the machine of docs/BENCHMARKS.md: a
/// command takes 19.1 us where both sides sleep, 0.33 us where they spin, and a round 29.7 ns; so 640 rounds.
const SPINS: u32 = 640;
/// A server waits so many times longer after it has made a file: the program has the kernel open it next, one
/// FUSE request of 46 us there (mountbench's `open` of the no-op), and comes back then.
const AFTER_CREATE: u32 = 4;

/// How long a server spins after a command, which spins so long after others.
pub fn spins_after(op: u32, spins: u32) -> u32 {
    if op == Op::Create as u32 { spins * AFTER_CREATE } else { spins }
}

/// How long this process may spin: not at all where it has but one processor.
pub fn spins() -> u32 {
    match rustix::thread::sched_getaffinity(None) {
        Ok(set) if set.count() > 1 => SPINS,
        _ => 0,
    }
}

/// Tells the channels of a server whether they are too many for spinning.
pub struct Crowd {
    /// Commands of all channels so far.
    served: AtomicU64,
    /// Channels that may spin: each has a client and a server, which want a processor each.
    pairs: u64,
}

impl Crowd {
    /// For the processors that this process has.
    #[expect(clippy::new_without_default, reason = "it looks at the machine")]
    pub fn new() -> Crowd {
        let processors = rustix::thread::sched_getaffinity(None).map_or(1, |set| set.count());
        Crowd { served: AtomicU64::new(0), pairs: u64::from(processors / 2) }
    }

    /// A command of a channel, whose one before was number `last`: whether more others came between than
    /// could spin, too.
    pub fn is_there(&self, last: &mut u64) -> bool {
        let now = self.served.fetch_add(1, Relaxed);
        let between = now.wrapping_sub(std::mem::replace(last, now));
        between > self.pairs
    }
}

fn wake(word: &AtomicU32) {
    // Nobody there is as good as woken.
    let _ = futex::wake(word, futex::Flags::empty(), 1);
}

/// Waits until `turn` is not `mine` any more, at most as long as it spins and then `most`; returns what it
/// is.
fn wait_once(
    (turn, sleeps): (&AtomicU32, &AtomicU32),
    mine: impl Fn(u32) -> bool,
    spins: u32,
    most: &Timespec,
) -> u32 {
    for _ in 0..spins {
        let now = turn.load(Acquire);
        if !mine(now) {
            return now;
        }
        std::hint::spin_loop();
    }
    sleeps.store(1, SeqCst);
    let now = turn.load(SeqCst);
    if mine(now) {
        // Woken, too late, or in vain: looked at again below.
        let _ = futex::wait(turn, futex::Flags::empty(), now, Some(most));
    }
    sleeps.store(0, SeqCst);
    turn.load(SeqCst)
}

impl Segment {
    /// The server: the next command; `None` when `ends`. Where none comes for a second the memory of the data
    /// area is given back, and `rests` is called, once.
    pub fn next(&self, ends: &AtomicBool, spins: u32, mut rests: impl FnMut()) -> Option<Command> {
        let mut has_rested = false;
        while !ends.load(SeqCst) {
            let words = (self.turn(), self.server_sleeps());
            match wait_once(words, |turn| turn != ASKED && turn != ENDED, spins, &IDLE) {
                ASKED => return Some(self.command()),
                // Also where the client has said so.
                ENDED => return None,
                FREE if !has_rested && self.turn().compare_exchange(FREE, RESTS, SeqCst, SeqCst).is_ok() => {
                    has_rested = true;
                    self.give_back();
                    rests();
                    // The exchange may fail: the client can have changed the turn meanwhile.
                    let _ = self.turn().compare_exchange(RESTS, FREE, SeqCst, SeqCst);
                    if self.client_sleeps().load(SeqCst) != 0 {
                        wake(self.turn());
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// The server: hands its answer over. `crowded`: the client is not to spin for the next one.
    pub fn reply(&self, answer: &Answer, crowded: bool) {
        self.put_answer(answer);
        // Mostly it is what it was, and then the word's cache line stays with both.
        if self.crowded().load(Relaxed) != u32::from(crowded) {
            self.crowded().store(u32::from(crowded), Relaxed);
        }
        self.turn().store(ANSWERED, SeqCst);
        if self.client_sleeps().load(SeqCst) != 0 {
            wake(self.turn());
        }
    }

    /// The server: nothing more is answered. All sleepers are woken.
    pub fn end(&self) {
        self.turn().store(ENDED, SeqCst);
        let _ = futex::wake(self.turn(), futex::Flags::empty(), i32::MAX as u32);
    }

    /// The client: takes the data area, for one command. One thread at a time. It waits while the server
    /// gives memory back. `None`: the server has ended, or, as `is_there` says, is gone.
    pub fn take(&self, is_there: impl Fn() -> bool) -> Option<Taken<'_>> {
        let words = (self.turn(), self.client_sleeps());
        loop {
            match self.turn().compare_exchange(FREE, TAKEN, SeqCst, SeqCst) {
                Ok(_) => return Some(Taken(self)),
                // It takes the server less than a millisecond, and as long as the machine likes where it is
                // busy.
                Err(RESTS) => {
                    if wait_once(words, |turn| turn == RESTS, 0, &PATIENCE) == RESTS && !is_there() {
                        return None;
                    }
                }
                Err(_) => return None,
            }
        }
    }

    /// The client: takes the data area, and asks; see [`Taken::ask`].
    pub fn ask(&self, command: &Command, spins: u32, is_there: impl Fn() -> bool) -> Option<Answer> {
        self.take(&is_there)?.ask(command, spins, is_there)
    }
}

/// The data area is the client's, until it is dropped.
pub struct Taken<'a>(&'a Segment);

impl Taken<'_> {
    /// Asks, and waits for the answer; the data area then has its data. `None`: the server ended, or, as
    /// `is_there` says, is gone; whether it did what was asked is not known.
    pub fn ask(&self, command: &Command, spins: u32, is_there: impl Fn() -> bool) -> Option<Answer> {
        let segment = self.0;
        segment.put_command(command);
        if segment.turn().compare_exchange(TAKEN, ASKED, SeqCst, SeqCst).is_err() {
            return None;
        }
        if segment.server_sleeps().load(SeqCst) != 0 {
            wake(segment.turn());
        }
        let spins = if segment.crowded().load(Relaxed) == 0 { spins } else { 0 };
        let words = (segment.turn(), segment.client_sleeps());
        loop {
            match wait_once(words, |turn| turn == ASKED, spins, &PATIENCE) {
                ANSWERED => return Some(segment.answer()),
                ASKED if is_there() => {}
                _ => return None,
            }
        }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let turn = self.0.turn();
        // A command that is asked and not answered stays so; so does a channel that has ended.
        if let now @ (TAKEN | ANSWERED) = turn.load(SeqCst) {
            let _ = turn.compare_exchange(now, FREE, SeqCst, SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// A server that answers the position of each command, by both ways of waiting.
    fn each_is_answered(spins: u32) {
        let (server, file) = Segment::make().expect("made");
        let (server, ends) = (Arc::new(server), Arc::new(AtomicBool::new(false)));
        let (its, its_end) = (Arc::clone(&server), Arc::clone(&ends));
        let serving = std::thread::Builder::new().spawn(move || {
            while let Some(command) = its.next(&its_end, spins, || ()) {
                its.reply(&Answer::of(command.pos), command.pos % 3 == 0);
            }
        });
        let client = Segment::open(&file).expect("opens");
        for pos in 0..2000 {
            let command = Command { pos, ..Command::new(Op::Read) };
            assert_eq!(client.ask(&command, spins, || true), Some(Answer::of(pos)));
        }
        ends.store(true, SeqCst);
        server.end();
        serving.expect("started").join().expect("ends");
        assert_eq!(client.ask(&Command::new(Op::Read), spins, || true), None, "it has ended");
    }

    #[test]
    fn a_crowd_is_more_busy_channels_than_pairs_of_processors() {
        let crowds = |pairs, channels: &[usize]| {
            let crowd = Crowd { served: AtomicU64::new(0), pairs };
            let mut last = [0; 16];
            channels.iter().map(|&channel| crowd.is_there(&mut last[channel])).collect::<Vec<_>>()
        };
        assert_eq!(crowds(1, &[0; 9]), [false; 9], "one alone");
        let in_turn: Vec<usize> = (0..48).map(|n| n % 16).collect();
        assert!(crowds(1, &in_turn)[16..].iter().all(|crowded| *crowded));
        assert!(crowds(16, &in_turn).iter().all(|crowded| !*crowded), "each pair has its processors");
        // One that is slow does not keep a fast one from spinning.
        assert_eq!(crowds(1, &[0, 0, 1, 0, 0, 0]), [false, false, true, true, false, false]);
    }

    #[test]
    fn every_command_is_answered_once_spinning_or_sleeping() {
        each_is_answered(0);
        each_is_answered(SPINS);
    }

    #[test]
    #[allow(clippy::disallowed_methods)] // the server rests on the wall clock
    fn memory_is_given_back_between_commands_and_never_during_one() {
        let (server, file) = Segment::make().expect("made");
        let client = Segment::open(&file).expect("opens");
        let held = || rustix::fs::fstat(&file).expect("there").st_blocks;
        let ends = AtomicBool::new(false);
        let taken = client.take(|| true).expect("free");
        client.put_data(&[7; 1 << 20]);
        assert!(held() >= 2048, "{} blocks", held());
        std::thread::scope(|s| {
            s.spawn(|| {
                while server.next(&ends, 0, || ()).is_some() {
                    let mut data = [0; 9];
                    server.data(&mut data);
                    assert_eq!(data, [7; 9]);
                    server.reply(&Answer::of(1), false);
                }
            });
            // The server has looked once in vain meanwhile: the data that the client is putting there stays.
            std::thread::sleep(std::time::Duration::from_millis(1200));
            assert!(held() >= 2048);
            assert_eq!(taken.ask(&Command::new(Op::Write), 0, || true), Some(Answer::of(1)));
            drop(taken);
            while held() > 64 {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            client.put_data(&[7; 9]);
            assert_eq!(client.ask(&Command::new(Op::Write), 0, || true), Some(Answer::of(1)), "and after it");
            ends.store(true, SeqCst);
            server.end();
        });
    }

    /// On a busy machine a server may be kept from running while it rests: it is there all the same.
    #[test]
    #[allow(clippy::disallowed_methods)] // the server rests on the wall clock
    fn a_client_waits_for_a_server_that_rests_however_long_it_takes() {
        let (server, file) = Segment::make().expect("made");
        let client = Segment::open(&file).expect("opens");
        let (ends, rests) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|s| {
            s.spawn(|| {
                let long = || {
                    rests.store(true, SeqCst);
                    std::thread::sleep(std::time::Duration::from_millis(700));
                };
                while server.next(&ends, 0, long).is_some() {
                    server.reply(&Answer::of(1), false);
                }
            });
            while !rests.load(SeqCst) {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            let answer = client.ask(&Command::new(Op::Read), 0, || true);
            ends.store(true, SeqCst);
            server.end();
            assert_eq!(answer, Some(Answer::of(1)));
        });
    }

    #[test]
    fn a_client_does_not_wait_for_a_server_that_is_gone() {
        let (server, file) = Segment::make().expect("made");
        let client = Segment::open(&file).expect("opens");
        // It died while it gave memory back.
        server.turn().store(RESTS, SeqCst);
        assert_eq!(client.ask(&Command::new(Op::Read), 0, || false), None);
        server.turn().store(FREE, SeqCst);
        assert_eq!(client.ask(&Command::new(Op::Read), 0, || false), None);
    }
}
