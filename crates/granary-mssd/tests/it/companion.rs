//! A companion from outside the crate: its command is offered, refused, seen through, torn by a power
//! failure, and no firmware knows of it.

use granary_device::{Command, Drive, DriveError, Structure, Vendor};
use granary_mssd::{
    CACHE, Companion, CompanionEntry, Controller, DriveConfig, DriveEntry, LOG, Mode, Mssd, Pending, Reach,
    Seen, in_range,
};
use granary_sim::rng::{Stream, Thing};
use granary_units::{Lpa, Nanos, Page};
use std::any::Any;

/// Puts a word on two pages, both or neither.
#[derive(Clone, Debug)]
struct Stamp {
    first: Lpa,
    word: u64,
}

impl Vendor for Stamp {
    fn name(&self) -> &'static str {
        "STAMP"
    }
}

impl Pending for Stamp {
    fn fork(&self) -> Box<dyn Pending> {
        Box::new(self.clone())
    }

    fn thing(&self) -> Thing {
        Thing::Page("stamp", self.first.0)
    }

    fn reach(&self) -> Reach {
        Reach::Pages
    }

    fn concerns(&self, lpa: Lpa) -> bool {
        lpa == self.first || lpa == self.first.offset(1)
    }

    fn seen(&self, _: Lpa) -> Seen {
        Seen::Content(Page::word(self.word))
    }
}

/// Serves [`Stamp`].
#[derive(Clone)]
struct Stamps;

const STAMPS: CompanionEntry = CompanionEntry {
    name: "stamps",
    about: "puts words on pages",
    commands: &["STAMP"],
    make: |_| Some(Box::new(Stamps)),
    load: None,
};

impl Companion for Stamps {
    fn fork(&self) -> Box<dyn Companion> {
        Box::new(self.clone())
    }

    fn offers(&self) -> &'static [&'static str] {
        STAMPS.commands
    }

    fn admits(&self, own: &dyn Vendor, pages: u64) -> Option<Result<(), DriveError>> {
        own.get::<Stamp>().map(|stamp| in_range(stamp.first, 2, pages))
    }

    fn serve(
        &mut self,
        drive: &mut Controller,
        c: &DriveConfig,
        now: Nanos,
        own: &mut dyn Vendor,
    ) -> Result<Nanos, DriveError> {
        let stamp = own.get::<Stamp>().expect("admitted").clone();
        let done = drive.accept(c, now) + c.link.nvme.completion;
        if drive.is_tracking() {
            drive.land(Some(self), stamp.first, now);
            drive.land(Some(self), stamp.first.offset(1), now);
            drive.defer(done, stamp);
            return Ok(done);
        }
        self.apply(drive, done, Box::new(stamp))
    }

    fn apply(
        &mut self,
        drive: &mut Controller,
        t: Nanos,
        pending: Box<dyn Pending>,
    ) -> Result<Nanos, DriveError> {
        let stamp = (pending as Box<dyn Any>).downcast::<Stamp>().expect("its own");
        let first = drive.write_page(Some(self), t, stamp.first, Page::word(stamp.word))?;
        drive.write_page(Some(self), first, stamp.first.offset(1), Page::word(stamp.word))
    }
}

fn drive(mode: Mode) -> Mssd {
    let bare = if mode == Mode::Log { LOG } else { CACHE };
    let entry = DriveEntry { beside: &[STAMPS], ..bare };
    entry.make(&DriveConfig::tiny(mode)).expect("a drive")
}

fn stamp(d: &Mssd, now: Nanos, first: u64, word: u64) -> Result<Nanos, DriveError> {
    d.submit(now, Command::Vendor(&mut Stamp { first: Lpa(first), word }))
}

fn two(d: &Mssd, now: Nanos) -> [Page; 2] {
    let mut out = [Page::ZERO, Page::ZERO];
    d.submit(now, Command::Read { lpa: Lpa(5), out: &mut out, what: Structure::Data }).expect("read");
    out
}

#[test]
fn a_companion_of_ones_own_is_offered_and_serves_beside_either_firmware() {
    for mode in [Mode::Log, Mode::Cache] {
        let d = drive(mode);
        assert!(d.info().answers("STAMP") && d.info().answers("COMMIT") == (mode == Mode::Log));
        let done = stamp(&d, Nanos::ZERO, 5, 7).expect("stamped");
        assert_eq!(two(&d, done), [Page::word(7), Page::word(7)], "{mode:?}");
        let end = d.info().pages;
        assert!(matches!(stamp(&d, done, end - 1, 7), Err(DriveError::OutOfRange { .. })));
        d.check().expect("consistent");
    }
    let without = Mssd::new(&DriveConfig::tiny(Mode::Cache)).expect("a drive");
    assert!(!without.info().answers("STAMP"));
    assert!(matches!(stamp(&without, Nanos::ZERO, 5, 7), Err(DriveError::Unsupported("STAMP"))));
}

/// Until it is acknowledged a read sees it all the same, and a power failure takes all of it or nothing;
/// afterwards it stays.
#[test]
fn a_command_of_a_companion_is_torn_only_before_its_answer_and_as_a_whole() {
    for mode in [Mode::Log, Mode::Cache] {
        let mut early = [0; 2];
        for seed in 0..40 {
            let d = drive(mode);
            d.track_in_flight(true);
            let late = seed % 2 == 0;
            let done = stamp(&d, Nanos::ZERO, 5, 7).expect("stamped");
            assert_eq!(two(&d, Nanos(1)), [Page::word(7), Page::word(7)], "{mode:?}");
            let fails = if late { done } else { Nanos(2) };
            d.power_fail(fails, &mut Stream::new(seed, "power"));
            let on = d.power_on(fails).expect("power");
            let [a, b] = two(&d, on);
            assert_eq!(a, b, "{mode:?} {seed}: one page without the other");
            match late {
                true => assert_eq!(a, Page::word(7), "{mode:?} {seed}: it was acknowledged"),
                false => early[usize::from(a == Page::word(7))] += 1,
            }
        }
        assert!(early[0] > 3 && early[1] > 3, "{mode:?}: lost and kept {early:?}");
    }
}

#[test]
fn a_companion_that_is_asked_for_in_vain_is_refused() {
    let config = DriveConfig::tiny(Mode::Cache).with_bam();
    let made = |beside: &'static [CompanionEntry]| DriveEntry { beside, ..CACHE }.make(&config).map(drop);
    assert!(made(granary_mssd::BESIDE).is_ok());
    let refused = |beside| made(beside).expect_err("refused").to_string();
    assert!(refused(&[]).contains("firmware.bam cannot stand beside the firmware 'cache'"));
    assert!(refused(&[STAMPS, granary_mssd::BAM]).contains("one companion, not stamps and bam"));
}
