//! Mappings of the reference: bytes of the file, or own pages of a private mapping.

use super::{RefProcess, RefState};
use granary_fs::{FileKind, FsError, Result};
use granary_units::{Dest, Payload};
use granary_vfs::{Fd, MapHow, MapId, OpenFlags};
use std::collections::BTreeMap;

const PAGE: u64 = 4096;

#[derive(Clone)]
pub(super) struct Map {
    ino: u64,
    pos: u64,
    len: u64,
    how: MapHow,
    own: BTreeMap<u64, Vec<u8>>,
}

impl Map {
    pub(super) fn digest(&self, h: &mut impl std::hash::Hasher) {
        let flags = u64::from(self.how.shared) | u64::from(self.how.write) << 1;
        [self.ino, self.pos, self.len, flags].into_iter().for_each(|n| h.write_u64(n));
        for (page, bytes) in &self.own {
            h.write_u64(*page);
            h.write(bytes);
        }
    }
}

impl RefState {
    fn map(&self, map: MapId, at: u64, len: usize) -> Result<(&Map, u64)> {
        let map = self.maps.get(&map.0).ok_or(FsError::Fault)?;
        let end = at.checked_add(len as u64).filter(|&end| end <= map.len);
        end.map(|_| (map, map.pos + at)).ok_or(FsError::Fault)
    }
}

impl RefProcess {
    pub(super) fn do_mmap(&mut self, fd: Fd, pos: u64, len: u64, how: MapHow) -> Result<MapId> {
        let (ino, flags) = {
            let file = self.me.files.get(&fd.0).ok_or(FsError::BadFd)?;
            (file.ino, file.flags)
        };
        if len == 0 || !pos.is_multiple_of(PAGE) {
            return Err(FsError::Invalid);
        }
        let appends = flags.contains(OpenFlags::APPEND);
        if !flags.reads() || (how.shared && how.write && (!flags.writes() || appends)) {
            return Err(FsError::Access);
        }
        let fs = self.fs.lock();
        if fs.at(ino).kind != FileKind::File {
            return Err(FsError::NotMappable);
        }
        pos.checked_add(len).filter(|&end| end <= fs.limits.max_file_size).ok_or(FsError::TooBig)?;
        drop(fs);
        let id = (0..).find(|n| !self.me.maps.contains_key(n)).expect("a free number");
        self.me.maps.insert(id, Map { ino, pos, len, how, own: BTreeMap::new() });
        Ok(MapId(id))
    }

    /// The bytes of an access, as the mapping shows them.
    fn shown(&self, map: MapId, at: u64, len: usize) -> Result<Vec<u8>> {
        let (map, pos) = self.me.map(map, at, len)?;
        let fs = self.fs.lock();
        let content = &fs.at(map.ino).content;
        let mut bytes = vec![0; len];
        for (byte, at) in bytes.iter_mut().zip(pos..) {
            *byte = match map.own.get(&(at / PAGE)) {
                Some(own) => own[(at % PAGE) as usize],
                None if at / PAGE >= content.size().div_ceil(PAGE) => return Err(FsError::Fault),
                None if at >= content.size() => 0,
                None => content.read(at, 1)[0],
            };
        }
        Ok(bytes)
    }

    pub(super) fn do_load(&mut self, map: MapId, at: u64, mut dest: Dest<'_>) -> Result<()> {
        let bytes = self.shown(map, at, dest.len())?;
        if let Dest::Bytes(out) = dest.part(0, bytes.len()) {
            out.copy_from_slice(&bytes);
        }
        Ok(())
    }

    pub(super) fn do_store(&mut self, id: MapId, at: u64, data: Payload<'_>) -> Result<()> {
        let (map, pos) = self.me.map(id, at, data.len())?;
        let Map { ino, how, .. } = *map;
        if !how.write {
            return Err(FsError::Fault);
        }
        self.shown(id, at, data.len())?;
        if how.shared {
            let mut fs = self.fs.lock();
            let size = fs.at(ino).content.size();
            let inside = (data.len() as u64).min(size.saturating_sub(pos)) as usize;
            if inside > 0 {
                fs.at_mut(ino).content.write(pos, data.part(0, inside));
            }
            return Ok(());
        }
        let mut bytes = vec![0; data.len()];
        data.copy_to(pos, &mut bytes);
        for (byte, at) in bytes.into_iter().zip(pos..) {
            let page = at / PAGE;
            if !self.me.maps[&id.0].own.contains_key(&page) {
                let fs = self.fs.lock();
                let content = &fs.at(ino).content;
                let len = content.size().saturating_sub(page * PAGE).min(PAGE) as usize;
                let mut own = content.read(page * PAGE, len);
                own.resize(PAGE as usize, 0);
                self.me.maps.get_mut(&id.0).expect("looked up").own.insert(page, own);
            }
            let own = &mut self.me.maps.get_mut(&id.0).expect("looked up").own;
            own.get_mut(&page).expect("just made")[(at % PAGE) as usize] = byte;
        }
        Ok(())
    }

    pub(super) fn do_msync(&mut self, map: MapId, at: u64, len: u64) -> Result<()> {
        if !at.is_multiple_of(PAGE) {
            self.me.maps.get(&map.0).ok_or(FsError::Fault)?;
            return Err(FsError::Invalid);
        }
        self.me.map(map, at, len as usize).map(|_| ())
    }

    pub(super) fn do_munmap(&mut self, map: MapId) -> Result<()> {
        self.me.maps.remove(&map.0).map(|_| ()).ok_or(FsError::Fault)
    }
}
