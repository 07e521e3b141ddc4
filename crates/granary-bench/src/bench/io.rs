//! [`Buffers`]: one access of a drive, with the memory that it needs.

use crate::job::Access;
use granary_device::{Command, Drive, DriveError, Structure};
use granary_sim::on_behalf;
use granary_trace::fio::Drawn;
use granary_units::{ByteAddr, Lpa, Nanos, PAGE_SIZE, Page, TxId};

const WHAT: Structure = Structure::Data;
const PAGE: u64 = PAGE_SIZE as u64;

/// The drive, and working memory of accesses.
pub(super) struct Buffers<'a> {
    drive: &'a dyn Drive,
    /// Each client is a core of its own to it: a DIMM, which knows what each core holds in its caches. An SSD
    /// gets stores written back at the instant at which they are made, from whichever core.
    tells_cores: bool,
    /// Pages of the largest command.
    most: usize,
    pages: Vec<Page>,
    bytes: Vec<u8>,
    lpas: Vec<Lpa>,
    places: Vec<ByteAddr>,
}

impl Buffers<'_> {
    pub(super) fn new(drive: &dyn Drive) -> Buffers<'_> {
        let info = drive.info();
        let (tells_cores, most) = (!info.blocks, info.max_transfer);
        Buffers {
            drive,
            tells_cores,
            most,
            pages: Vec::new(),
            bytes: Vec::new(),
            lpas: Vec::new(),
            places: Vec::new(),
        }
    }

    pub(super) fn look_ahead(&mut self, accesses: &[Drawn]) {
        // The accesses of a job are all of bytes or all of blocks.
        if accesses.first().is_some_and(|d| d.access.is_byte()) {
            self.places.clear();
            self.places.extend(accesses.iter().rev().map(|d| ByteAddr(d.at)));
            self.drive.look_ahead_lines(&self.places);
        } else {
            self.lpas.clear();
            self.lpas.extend(accesses.iter().map(|d| ByteAddr(d.at).lpa()));
            self.drive.look_ahead(&self.lpas);
        }
    }

    /// Begins an access of a client at `now`; returns when it completes (a store: when its lines may be
    /// written back).
    #[inline]
    pub(super) fn access(
        &mut self,
        now: Nanos,
        client: u32,
        Drawn { access, at, len }: Drawn,
        nth: u64,
    ) -> Result<Nanos, DriveError> {
        if access.is_byte() {
            let core = if self.tells_cores { client } else { 0 };
            let _core = on_behalf(core as usize);
            self.bytes.resize(len as usize, 0);
            if access == Access::Load {
                return self.drive.load(now, ByteAddr(at), &mut self.bytes, WHAT);
            }
            self.bytes.fill(nth as u8 | 1);
            return self.drive.store_from(core as u16, now, ByteAddr(at), &self.bytes, TxId::NONE, WHAT);
        }
        let (pages, lpa) = ((len / PAGE) as usize, at / PAGE);
        if access == Access::Trim {
            return self.drive.submit(now, Command::Trim { lpa: Lpa(lpa), count: pages as u64 });
        }
        let (mut from, mut done) = (0, now);
        while from < pages {
            let n = self.most.min(pages - from);
            let lpa = Lpa(lpa + from as u64);
            self.pages.clear();
            let command = if access == Access::Read {
                self.pages.resize(n, Page::ZERO);
                Command::Read { lpa, out: &mut self.pages, what: WHAT }
            } else {
                self.pages.extend((0..n as u64).map(|i| Page::word(nth << 8 | i)));
                Command::Write { lpa, pages: &self.pages, what: WHAT }
            };
            done = done.max(self.drive.submit(now, command)?);
            from += n;
        }
        Ok(done)
    }
}
