//! [`Wal`]: the redo log, two halves of a file in turn; and how it is read back.
//!
//! ```text
//!   half     | header 64 B | frame | frame | ... | old bytes         active one is appended to,
//!   header   magic "GRNYWAL1" 8, UUID 16, first sequence number 8, CRC-32C 4     the other is free or being
//!   frame    | sum 4 | length 4 | sequence 8 | one group of records ... |        put into `dram`
//!              of all that follows ([`sum`])    pages first; padded to 8 B, or to whole blocks
//! ```
//!
//! Where the log is written (machine mode) frames end at block boundaries, and go past the host's page cache
//! where it lets them. Writing a block again that was synced a moment ago makes the next sync wait for the
//! disk: 313 us with 4,328 B frames, 191 us with 8,192 B ones past the cache (the fio command in
//! docs/BENCHMARKS.md). The half's header shares the block of its first frame and is written with it,
//! unchanged.
//!
//! A frame counts if its checksum is right and its sequence number follows its predecessor's. The first one
//! that does not ends the log: the process died, or the machine crashed, while it was written. If frames that
//! would follow it are found behind it all the same, the log is damaged.
//!
//! Invariants: sequence numbers grow by one; a half is begun only when everything in it has reached `dram`.

use super::ImageError;
use super::blocks::{BLOCK, Blocks};
use super::files::WAL;
use super::host::{HostFile, Map, disk::write_zeros};
use super::pending::Rider;
use super::redo::{CONTENT_HEAD, CONTENT_RECORD, content_head, is_content};
use super::sum;
use super::{long, word};
use std::io;
use std::sync::Arc;

/// Bytes of a half's header.
const HEADER: u64 = 64;
/// Bytes of a frame before its group.
pub const FRAME: usize = 16;
const MAGIC: &[u8; 8] = b"GRNYWAL1";
/// Bytes of shared memory that are made ready for writing at once.
const READY: u64 = 256 << 10;
/// How far ahead of the expected one a sequence number behind the end may be to betray damage.
const AHEAD: u64 = 1 << 24;

/// How the log gets to the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Through memory shared with the file, where the host can: safe from the death of the process only.
    Shared,
    /// With writes, to be synced.
    Written,
}

/// The log being written.
pub struct Wal {
    file: Arc<dyn HostFile>,
    /// The same file past the host's page cache, where the host can.
    direct: Option<Arc<dyn HostFile>>,
    map: Option<Map>,
    way: Way,
    uuid: [u8; 16],
    half: u64,
    active: usize,
    /// Offset of the next frame in the active half.
    at: u64,
    /// Sequence number of the next frame.
    seq: u64,
    /// A frame put together, where the log is written.
    whole: Blocks,
    /// Frames end at multiples of this.
    align: u64,
    /// The active half's header.
    header: [u8; HEADER as usize],
    /// Up to this offset of the file the active half's memory has been made ready.
    ready: u64,
}

impl Wal {
    /// An empty log of two halves of `half` bytes, in place of whatever the file held.
    ///
    /// # Errors
    /// Host errors, no space among them.
    pub fn start(file: Arc<dyn HostFile>, uuid: [u8; 16], half: u64, way: Way) -> io::Result<Wal> {
        file.set_len(0)?;
        file.set_len(2 * half)?;
        let map = match way {
            Way::Shared => {
                file.allocate(2 * half)?;
                file.map(2 * half)?
            }
            Way::Written => {
                // Written blocks, not only reserved ones: a sync then has no metadata to write.
                write_zeros(&*file, 2 * half)?;
                file.sync()?;
                None
            }
        };
        let in_blocks = way == Way::Written && half.is_multiple_of(BLOCK as u64);
        let mut wal = Wal {
            direct: if in_blocks { file.direct() } else { None },
            file,
            map,
            way,
            uuid,
            half,
            active: 0,
            at: 0,
            seq: 1,
            whole: Blocks::default(),
            align: if in_blocks { BLOCK as u64 } else { 8 },
            header: [0; HEADER as usize],
            ready: 0,
        };
        wal.begin(0)?;
        Ok(wal)
    }

    /// Makes the file, whose content is in its place, an empty log: zeros, because a file without bytes would
    /// mean that the image was closed. The returned closure begins the log anew.
    ///
    /// # Errors
    /// Host errors; those of [`Wal::start`].
    pub fn empty(self) -> io::Result<impl FnOnce() -> io::Result<Wal>> {
        let Wal { file, uuid, half, way, map, .. } = self;
        // Memory beyond a file's end cannot be touched.
        drop(map);
        file.set_len(0)?;
        file.set_len(2 * half)?;
        Ok(move || Wal::start(file, uuid, half, way))
    }

    /// The half that is appended to.
    pub fn active(&self) -> usize {
        self.active
    }

    /// Bytes that a frame may have at most, its head included.
    pub fn most(&self) -> u64 {
        self.half - HEADER
    }

    /// Whether a frame of `len` bytes fits into the active half.
    pub fn fits(&self, len: usize) -> bool {
        self.at + len as u64 <= self.half
    }

    /// Bytes that a frame of `len` bytes takes at its place.
    fn taken(&self, len: usize) -> usize {
        ((self.at + len as u64).next_multiple_of(self.align) - self.at) as usize
    }

    /// Begins a half, which must be free.
    ///
    /// # Errors
    /// Host errors.
    pub fn begin(&mut self, half: usize) -> io::Result<()> {
        let mut header = [0; HEADER as usize];
        header[0..8].copy_from_slice(MAGIC);
        header[8..24].copy_from_slice(&self.uuid);
        header[24..32].copy_from_slice(&self.seq.to_le_bytes());
        let crc = crc32c::crc32c(&header[..32]);
        header[32..36].copy_from_slice(&crc.to_le_bytes());
        (self.active, self.at, self.ready, self.header) = (half, HEADER, 0, header);
        let start = half as u64 * self.half;
        match &mut self.map {
            Some(map) => map.write(start, &header),
            None => self.file.write_at(start, &header)?,
        }
        // Safe before any frame behind it: frames without a header are damage.
        if self.way == Way::Written { self.file.sync() } else { Ok(()) }
    }

    /// Bytes of a frame with these records (room for the head included) and this number of flash pages.
    pub fn frame_len(frame: &[u8], riders: usize) -> usize {
        frame.len().next_multiple_of(8) + riders * CONTENT_RECORD
    }

    /// Completes and appends a frame: `frame` has [`FRAME`] bytes of room, then records; the riders are
    /// appended with it. It must fit. Returns where in the file the content of the first rider is (the next
    /// ones follow, one [`CONTENT_RECORD`] further each), and the bytes taken.
    ///
    /// # Errors
    /// Host errors.
    pub fn append(&mut self, frame: &mut Vec<u8>, riders: &[Rider]) -> io::Result<(u64, u64)> {
        frame.resize(frame.len().next_multiple_of(8), 0);
        let taken = self.taken(Wal::frame_len(frame, riders.len()));
        frame[4..8].copy_from_slice(&((taken - FRAME) as u32).to_le_bytes());
        frame[8..16].copy_from_slice(&self.seq.to_le_bytes());
        let contents = self.active as u64 * self.half + self.at + (FRAME + CONTENT_HEAD) as u64;
        if self.map.is_some() {
            self.append_mapped(frame, riders);
        } else {
            self.append_written(frame, riders, taken)?;
        }
        self.at += taken as u64;
        self.seq += 1;
        Ok((contents, taken as u64))
    }

    /// The pages are copied to their places directly. If the process dies in between, the incomplete frame
    /// has a wrong checksum.
    fn append_mapped(&mut self, frame: &mut [u8], riders: &[Rider]) {
        let Some(map) = &mut self.map else { return };
        let start = self.active as u64 * self.half + self.at;
        let mut at = start + FRAME as u64;
        let mut sum = sum::Frame::new(&frame[4..FRAME]);
        let end = start + Wal::frame_len(frame, riders.len()) as u64;
        if end > self.ready {
            self.ready = (end + READY).min((self.active as u64 + 1) * self.half);
            map.populate(start..self.ready);
        }
        for r in riders {
            let head = content_head(r.ppa, r.seq);
            map.write(at, &head);
            map.write(at + CONTENT_HEAD as u64, r.bytes());
            sum.page(&head, r.sum);
            at += CONTENT_RECORD as u64;
        }
        let records = &frame[FRAME..];
        map.write(at, records);
        let sum = sum.finish(records);
        frame[0..4].copy_from_slice(&sum.to_le_bytes());
        map.write(start, &frame[..FRAME]);
    }

    fn append_written(&mut self, frame: &[u8], riders: &[Rider], taken: usize) -> io::Result<()> {
        let whole = &mut self.whole;
        whole.clear();
        if self.align == BLOCK as u64 && self.at == HEADER {
            whole.put(&self.header);
        }
        let start = whole.len();
        whole.put(&frame[..FRAME]);
        let mut sum = sum::Frame::new(&frame[4..FRAME]);
        for r in riders {
            let head = content_head(r.ppa, r.seq);
            whole.put(&head);
            whole.put(r.bytes());
            sum.page(&head, r.sum);
        }
        let rest = whole.len();
        whole.put(&frame[FRAME..]);
        whole.zeros(start + taken);
        let whole = whole.bytes();
        let sum = sum.finish(&whole[rest..]);
        whole[start..start + 4].copy_from_slice(&sum.to_le_bytes());
        let file = self.direct.as_ref().unwrap_or(&self.file);
        file.write_at(self.active as u64 * self.half + self.at - start as u64, whole)
    }

    /// The file, to sync it or to read a half.
    pub fn file(&self) -> &Arc<dyn HostFile> {
        &self.file
    }
}

/// Reads one half: calls `each` with every group that continues the sequence from `expected` on (padded with
/// zeros, which read as records of no bytes), and with its place in the half. Returns the next number and
/// where the frames end.
///
/// # Errors
/// Those of `each`, host errors.
pub fn read_half(
    file: &dyn HostFile,
    half: u64,
    which: usize,
    buffer: &mut Vec<u8>,
    mut expected: u64,
    mut each: impl FnMut(usize, &[u8]) -> Result<(), ImageError>,
) -> Result<(u64, u64), ImageError> {
    buffer.resize(half as usize, 0);
    file.read_at(which as u64 * half, buffer).map_err(|e| ImageError::host("reading wal", e))?;
    let mut at = HEADER as usize;
    while let Some((seq, end)) = frame_at(buffer, at)
        && seq == expected
    {
        each(at + FRAME, &buffer[at + FRAME..end])?;
        (expected, at) = (expected + 1, end);
    }
    Ok((expected, at as u64))
}

/// The sequence number and the end of the frame at `at`, if there is one.
fn frame_at(half: &[u8], at: usize) -> Option<(u64, usize)> {
    let head = half.get(at..at + FRAME)?;
    let end = at + FRAME + word(head, 4) as usize;
    let mut rest = half.get(at + FRAME..end)?;
    let mut sum = sum::Frame::new(&head[4..]);
    while rest.len() >= CONTENT_RECORD && is_content(rest) {
        let (record, behind) = rest.split_at(CONTENT_RECORD);
        let (head, page) = record.split_at(CONTENT_HEAD);
        sum.page(head, sum::page(page));
        rest = behind;
    }
    (sum.finish(rest) == word(head, 0)).then(|| (long(head, 8), end))
}

/// The name of the image that a half's header says; `None` where there is no header.
pub fn name_of(header: &[u8; HEADER as usize]) -> Option<[u8; 16]> {
    let is_header = &header[..8] == MAGIC && word(header, 32) == crc32c::crc32c(&header[..32]);
    is_header.then(|| header[8..24].try_into().expect("sixteen bytes"))
}

fn header_of(half: &[u8], uuid: &[u8; 16]) -> Option<u64> {
    let ok = &half[..8] == MAGIC && &half[8..24] == uuid && word(half, 32) == crc32c::crc32c(&half[..32]);
    ok.then(|| long(half, 24))
}

/// Reads a whole log: calls `each` with every group, in order. Returns their number.
///
/// # Errors
/// [`ImageError::Damaged`]; those of `each`; host errors.
pub fn replay(
    file: &dyn HostFile,
    uuid: &[u8; 16],
    mut each: impl FnMut(&[u8]) -> Result<(), ImageError>,
) -> Result<u64, ImageError> {
    let len = file.len().map_err(|e| ImageError::host("reading wal", e))?;
    if len == 0 {
        return Ok(0);
    }
    let half = len / 2;
    if half < HEADER || !len.is_multiple_of(16) {
        return Err(ImageError::damaged(WAL, format!("it is {len} bytes long, which is no two halves")));
    }
    let mut first = Vec::new();
    let mut header = [0; HEADER as usize];
    for which in 0..2 {
        file.read_at(which as u64 * half, &mut header).map_err(|e| ImageError::host("reading wal", e))?;
        if let Some(seq) = header_of(&header, uuid) {
            first.push((seq, which));
        }
    }
    first.sort_unstable();
    let Some(&(begin, _)) = first.first() else {
        // Cut down before its first header was written, or destroyed.
        return no_frames_beyond(file, half, 0, 1, [0, 0]).map(|()| 0);
    };
    let (mut buffer, mut expected, mut ends) = (Vec::new(), begin, [0; 2]);
    for &(seq, which) in &first {
        if seq != expected {
            return Err(ImageError::damaged(
                WAL,
                format!("groups {expected} to {} are missing", seq.wrapping_sub(1)),
            ));
        }
        (expected, ends[which]) =
            read_half(file, half, which, &mut buffer, expected, |_, group| each(group))?;
    }
    no_frames_beyond(file, half, expected, begin, ends)?;
    Ok(expected - begin)
}

/// Frames that would come later must not exist: the log would have a hole.
fn no_frames_beyond(
    file: &dyn HostFile,
    half: u64,
    expected: u64,
    begin: u64,
    ends: [u64; 2],
) -> Result<(), ImageError> {
    let mut buffer = vec![0; half as usize];
    for (which, end) in ends.into_iter().enumerate() {
        file.read_at(which as u64 * half, &mut buffer).map_err(|e| ImageError::host("reading wal", e))?;
        let mut at = end as usize;
        while at + FRAME <= buffer.len() {
            let seq = long(&buffer, at + 8);
            if seq >= expected.max(begin)
                && seq - expected.max(begin) < AHEAD
                && word(&buffer, at + 4) > 0
                && frame_at(&buffer, at).is_some()
            {
                return Err(ImageError::damaged(
                    WAL,
                    format!("group {expected} is unreadable, but group {seq} comes later"),
                ));
            }
            at += 8;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
