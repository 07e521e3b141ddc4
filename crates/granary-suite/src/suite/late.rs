//! [`LateDrive`]: a drive that keeps its promises and no more, and takes its time with file data: everything
//! written later overtakes it. It finds code that relies on the order of submission.

use granary_device::{Command, Drive, DriveError, DriveInfo, LinkTraffic, Structure};
use granary_sim::rng::Stream;
use granary_units::{ByteAddr, Bytes, Lpa, Nanos, PAGE_SIZE, Page, TxId};
use parking_lot::Mutex;
use std::collections::BTreeMap;

const DATA: Nanos = Nanos::from_millis(5);
const OTHER: Nanos = Nanos::from_micros(10);

#[derive(Default)]
struct State {
    /// Pages as reads see them.
    seen: BTreeMap<u64, Page>,
    /// Pages that are acknowledged.
    safe: BTreeMap<u64, Page>,
    in_flight: Vec<(Nanos, u64, Page)>,
}

/// See the module.
pub struct LateDrive {
    pages: u64,
    state: Mutex<State>,
}

impl State {
    fn acknowledge(&mut self, now: Nanos) {
        let mut done: Vec<_> = self.in_flight.extract_if(.., |(t, ..)| *t <= now).collect();
        done.sort_by_key(|(t, ..)| *t);
        self.safe.extend(done.into_iter().map(|(_, lpa, page)| (lpa, page)));
    }
}

impl LateDrive {
    /// An empty drive of this size.
    pub fn new(size: Bytes) -> LateDrive {
        LateDrive { pages: size.0 / PAGE_SIZE as u64, state: Mutex::default() }
    }
}

impl Drive for LateDrive {
    granary_device::plain_drive!();

    fn info(&self) -> DriveInfo {
        DriveInfo { pages: self.pages, blocks: true, max_transfer: 64, ..DriveInfo::default() }
    }

    fn submit(&self, now: Nanos, command: Command<'_>) -> Result<Nanos, DriveError> {
        let mut s = self.state.lock();
        s.acknowledge(now);
        match command {
            Command::Read { lpa, out, .. } => {
                for (i, page) in out.iter_mut().enumerate() {
                    *page = s.seen.get(&(lpa.0 + i as u64)).cloned().unwrap_or_default();
                }
                Ok(now + OTHER)
            }
            Command::Write { lpa, pages, what } => {
                let done = now + if what == Structure::Data { DATA } else { OTHER };
                for (i, page) in pages.iter().enumerate() {
                    s.seen.insert(lpa.0 + i as u64, page.clone());
                    s.in_flight.push((done, lpa.0 + i as u64, page.clone()));
                }
                Ok(done)
            }
            Command::Trim { lpa: Lpa(first), count } => {
                let State { seen, safe, .. } = &mut *s;
                for pages in [seen, safe] {
                    let gone: Vec<u64> = pages.range(first..first + count).map(|(lpa, _)| *lpa).collect();
                    gone.iter().for_each(|lpa| drop(pages.remove(lpa)));
                }
                Ok(now + OTHER)
            }
            Command::Flush => Ok(now + OTHER),
            _ => Err(DriveError::Unsupported("log mode, BAM")),
        }
    }

    fn power_fail(&self, now: Nanos, random: &mut Stream) {
        let mut s = self.state.lock();
        s.acknowledge(now);
        for (_, lpa, page) in std::mem::take(&mut s.in_flight) {
            if random.chance(0.5) {
                s.safe.insert(lpa, page);
            }
        }
        s.seen = s.safe.clone();
    }

    fn power_on(&self, now: Nanos) -> Result<Nanos, DriveError> {
        Ok(now)
    }

    fn load(&self, _: Nanos, _: ByteAddr, _: &mut [u8], _: Structure) -> Result<Nanos, DriveError> {
        Err(DriveError::Unsupported("byte window"))
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
        Err(DriveError::Unsupported("byte window"))
    }

    fn flush_lines(&self, _: Nanos, _: ByteAddr, _: usize) -> Result<Nanos, DriveError> {
        Err(DriveError::Unsupported("byte window"))
    }

    fn verify(&self, _: Nanos) -> Result<Nanos, DriveError> {
        Err(DriveError::Unsupported("byte window"))
    }

    fn settle(&self, now: Nanos) -> Result<Nanos, DriveError> {
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
