//! Pages that no attempt reads any more: their lines that the log acknowledged are never lost, and lost lines
//! are reported as lost.

use super::rig::WHAT;
use granary_device::vendor::transactions::Recover;
use granary_device::{Command, Drive, DriveError};
use granary_mssd::{DriveConfig, Mode, Mssd};
use granary_sim::rng::Stream;
use granary_units::{ByteAddr, LINES_PER_PAGE, Lpa, Nanos, Page, TxId};

const PAGES: u64 = 30;

/// Content of a line: a byte repeated, or nothing that can be read.
type Line = Option<u8>;

struct Host {
    drive: Mssd,
    now: Nanos,
    lines: Vec<Line>,
}

impl Host {
    /// Every third page can be read; of the others the flash has forgotten everything.
    fn new() -> Host {
        let drive = Mssd::new(&DriveConfig::tiny(Mode::Log)).expect("valid");
        let mut host = Host { drive, now: Nanos::ZERO, lines: vec![None; PAGES as usize * LINES_PER_PAGE] };
        (0..PAGES).for_each(|page| host.write(page, 7));
        host.now = host.drive.settle(host.now).expect("settles");
        for page in (0..PAGES).filter(|p| !p.is_multiple_of(3)) {
            assert!(host.drive.break_page(Lpa(page)), "page {page} is in flash");
            host.fill(page, None);
        }
        host
    }

    fn fill(&mut self, page: u64, with: Line) {
        let first = page as usize * LINES_PER_PAGE;
        self.lines[first..first + LINES_PER_PAGE].fill(with);
    }

    fn submit(&mut self, command: Command<'_>) {
        self.now = self.drive.submit(self.now, command).expect("carried out");
    }

    fn write(&mut self, page: u64, value: u8) {
        let pages = [Page::from_bytes(&[value; Page::SIZE])];
        self.submit(Command::Write { lpa: Lpa(page), pages: &pages, what: WHAT });
        self.fill(page, Some(value));
    }

    fn persist(&mut self, line: u64, lines: usize, value: u8) {
        let (at, data) = (ByteAddr(line * 64), vec![value; lines * 64]);
        let stored = self.drive.store(self.now, at, &data, TxId::NONE, WHAT).expect("stores");
        let flushed = self.drive.flush_lines(stored, at, data.len()).expect("flushes");
        self.now = self.drive.verify(flushed).expect("verifies");
        self.lines[line as usize..line as usize + lines].fill(Some(value));
    }

    /// Every line by itself, every page as a whole.
    fn look(&self, when: &str) {
        let gone = |e: DriveError, page| assert_eq!(e, DriveError::Unreadable(page), "{when}");
        for (l, expected) in (0..).zip(&self.lines) {
            let mut out = [0; 64];
            match (self.drive.load(self.now, ByteAddr(l * 64), &mut out, WHAT), expected) {
                (Ok(_), Some(value)) => assert_eq!(out, [*value; 64], "{when}: line {l}"),
                (Err(e), None) => gone(e, l / LINES_PER_PAGE as u64),
                (Ok(_), None) => panic!("{when}: line {l} is gone, but something is read: {out:02x?}"),
                (Err(e), Some(_)) => panic!("{when}: line {l} was acknowledged: {e}"),
            }
        }
        for (page, lines) in (0..).zip(self.lines.chunks(LINES_PER_PAGE)) {
            let mut out = [Page::ZERO];
            let read =
                self.drive.submit(self.now, Command::Read { lpa: Lpa(page), out: &mut out, what: WHAT });
            match read {
                Ok(_) => assert!(lines.iter().all(|l| l.is_some()), "{when}: page {page} misses lines"),
                Err(e) => {
                    gone(e, page);
                    assert!(lines.contains(&None), "{when}: nothing of page {page} is gone");
                }
            }
        }
        self.drive.check().expect("consistent");
    }

    fn lose_power(&mut self, rng: &mut Stream) {
        self.drive.power_fail(self.now, rng);
        self.now = self.drive.power_on(self.now + Nanos(1)).expect("powers on");
    }
}

#[test]
fn acknowledged_lines_outlive_the_pages_below_them() {
    let (mut given_up, mut whole_again) = (0, 0);
    for seed in 0..12 {
        let mut rng = Stream::new(seed, "unreadable");
        let mut h = Host::new();
        for step in 0..800u32 {
            let (page, value) = (rng.below(PAGES), step as u8);
            match rng.below(1000) {
                0..950 => {
                    let first = rng.below(64);
                    h.persist(page * 64 + first, (1 + rng.below(3)).min(64 - first) as usize, value);
                }
                950..970 => {
                    h.lose_power(&mut rng);
                    h.submit(Command::Vendor(&mut Recover));
                }
                970..980 => h.now = h.drive.settle(h.now).expect("settles"),
                980..990 => h.write(page, value),
                990..995 => {
                    h.submit(Command::Trim { lpa: Lpa(page), count: 1 });
                    h.fill(page, Some(0));
                }
                _ => h.look("on the way"),
            }
        }
        h.look("in the end");
        h.lose_power(&mut rng);
        h.look("after power loss");
        h.submit(Command::Vendor(&mut Recover));
        h.look("after RECOVER");
        let c = h.drive.counters().log;
        assert_eq!(c.lines_lost, 0, "seed {seed}");
        given_up += c.lines_given_up;
        // Each line written once more: nothing is gone any longer.
        if seed.is_multiple_of(3) {
            (0..PAGES * 64).for_each(|line| h.persist(line, 1, 3));
            h.now = h.drive.settle(h.now).expect("settles");
            h.look("all written again");
            whole_again += 1;
        }
    }
    assert!(given_up > 1000 && whole_again > 2, "{given_up} lines given up");
}
