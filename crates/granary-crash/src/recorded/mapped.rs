//! Mappings and files without a name, of recorded clients.
//!
//! ```text
//!   map_store   a store is a write that does not move the file's end; in pieces of a page, as write-back
//!               takes them
//!   msync       its stores are promised from here on, of other changes nothing
//! ```
//!
//! Stores beyond the end of the file are nobody's: they are forwarded and forgotten. Private mappings change
//! no file.

use super::{Open, Scribe};
use crate::oracle::NodeId;
use granary_fs::Result;
use granary_units::{Dest, PAGE_SIZE, Payload};
use granary_vfs::{Fd, MapHow, MapId, OpenFlags, Posix};

/// A shared mapping that stores go through.
#[derive(Clone, Copy)]
pub(super) struct Mapping {
    node: NodeId,
    /// Place of its first byte in the file.
    pos: u64,
}

/// The part of a payload from `from` on, `len` bytes; fills are in phase with the file.
fn part(data: Payload<'_>, from: usize, len: usize) -> Payload<'_> {
    match data {
        Payload::Fill { word, .. } => Payload::Fill { word, len },
        Payload::Bytes(bytes) => Payload::Bytes(&bytes[from..from + len]),
    }
}

impl<P: Posix> Scribe<P> {
    pub(super) fn do_mmap(&mut self, fd: Fd, pos: u64, len: u64, how: MapHow) -> Result<MapId> {
        let map = self.inner.mmap(fd, pos, len, how)?;
        self.maps.remove(&map);
        if let Some(node) = self.node_of(fd).filter(|_| how.shared && how.write) {
            self.maps.insert(map, Mapping { node, pos });
        }
        Ok(map)
    }

    pub(super) fn do_load(&mut self, map: MapId, at: u64, dest: Dest<'_>) -> Result<()> {
        let Some(mapping) = self.maps.get(&map).copied() else { return self.inner.map_load(map, at, dest) };
        let Dest::Bytes(buffer) = dest else { return self.inner.map_load(map, at, dest) };
        let since = self.promises.with(|m| m.stamps.tick());
        self.inner.map_load(map, at, Dest::Bytes(&mut *buffer))?;
        let pos = mapping.pos + at;
        self.promises.with(|m| {
            let content = &m.node(mapping.node).content;
            let end = content.size_range(&m.stamps, since).0;
            let within = end.saturating_sub(pos).min(buffer.len() as u64) as usize;
            if content.known_since(since)
                && let Err(what) = content.explain(&m.stamps, since, pos, &buffer[..within])
            {
                m.confused.push(format!("a load returned what nobody wrote: {what}"));
            }
        });
        Ok(())
    }

    pub(super) fn do_store(&mut self, map: MapId, at: u64, data: Payload<'_>) -> Result<()> {
        let _telling = self.begin(self.text(|_| format!("store {} bytes at {at:#x} of {map:?}", data.len())));
        let data = match data {
            Payload::Fill { len, .. } if self.unique_fills => {
                Payload::Fill { word: self.promises.with(crate::oracle::Model::unique_word), len }
            }
            other => other,
        };
        let mut stamps = Vec::new();
        if let Some(Mapping { node, pos }) = self.maps.get(&map).copied() {
            let (start, end) = (pos + at, pos + at + data.len() as u64);
            self.promises.with(|m| {
                let mut from = start;
                while from < end {
                    let to = (from + 1).next_multiple_of(PAGE_SIZE as u64).min(end);
                    let piece = part(data, (from - start) as usize, (to - from) as usize);
                    stamps.push(m.store(node, from, piece));
                    from = to;
                }
            });
        }
        // One that fails may have stored a part: its stamps never end.
        self.inner.map_store(map, at, data)?;
        self.promises.with(|m| stamps.into_iter().for_each(|by| m.end_store(by)));
        Ok(())
    }

    pub(super) fn do_msync(&mut self, map: MapId, at: u64, len: u64, wait: bool) -> Result<()> {
        let _telling = self.begin(self.text(|_| format!("msync {len} bytes at {at:#x} of {map:?}")));
        let horizon = self.promises.with(|m| m.stamps.tick());
        let synced = self.inner.msync(map, at, len, wait);
        if let (Err(_), Some(mapping)) = (&synced, self.maps.get(&map)) {
            self.promises.with(|m| m.node_mut(mapping.node).doubtful = true);
        }
        synced?;
        if let Some(Mapping { node, pos }) = self.maps.get(&map).copied().filter(|_| wait) {
            let page = PAGE_SIZE as u64;
            let range = (pos + at) / page * page..(pos + at + len).next_multiple_of(page);
            // Where an open file was told of an error, no mapping is.
            self.promises.with(|m| {
                if !m.node(node).doubtful {
                    m.keep_stores(node, range, horizon)
                }
            });
        }
        Ok(())
    }

    pub(super) fn do_open_unnamed(&mut self, dir: &[u8], flags: OpenFlags, mode: u16) -> Result<Fd> {
        let _telling = self.begin(self.text(|_| format!("open without a name in {}", super::show(dir))));
        let fd = self.inner.open_unnamed(dir, flags, mode)?;
        let stat = self.inner.fstat(fd)?;
        let node = self.promises.with(|m| m.make_unnamed(stat.ino, &stat.attr));
        self.files.insert(fd, Open { node, flags, pos: 0, doubtful: false });
        Ok(fd)
    }
}
