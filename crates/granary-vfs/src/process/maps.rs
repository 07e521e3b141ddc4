//! The mappings of a process: lowest free number first, like descriptors.

use super::Process;
use crate::posix::{Fd, MapHow, MapId};
use crate::vfs::MemoryMap;
use granary_fs::{FsError, Result};
use granary_units::{Dest, Payload};
use std::sync::Arc;

/// Most mappings of a process: Linux's `vm.max_map_count`.
const MAX_MAPS: usize = 65_530;

/// A mapping, by the table alone: the rest of the process can be used beside it.
fn map_of(maps: &mut [Option<MemoryMap>], map: MapId) -> Result<&mut MemoryMap> {
    maps.get_mut(map.0 as usize).and_then(Option::as_mut).ok_or(FsError::Fault)
}

impl Process {
    fn map(&mut self, map: MapId) -> Result<&mut MemoryMap> {
        map_of(&mut self.maps, map)
    }

    pub(super) fn do_mmap(&mut self, fd: Fd, pos: u64, len: u64, how: MapHow) -> Result<MapId> {
        let vfs = Arc::clone(&self.vfs);
        let map = vfs.mmap(&self.file(fd)?.file, pos, len, how)?;
        let at = self.maps.iter().position(Option::is_none).unwrap_or(self.maps.len());
        if at >= MAX_MAPS {
            return Err(FsError::TooManyFiles);
        }
        if at == self.maps.len() {
            self.maps.push(None);
        }
        self.maps[at] = Some(map);
        Ok(MapId(at as u32))
    }

    pub(super) fn do_load(&mut self, map: MapId, at: u64, dest: Dest<'_>) -> Result<()> {
        self.vfs.map_load(&self.caller, map_of(&mut self.maps, map)?, at, dest)
    }

    pub(super) fn do_store(&mut self, map: MapId, at: u64, data: Payload<'_>) -> Result<()> {
        self.vfs.map_store(&self.caller, map_of(&mut self.maps, map)?, at, data)
    }

    pub(super) fn do_msync(&mut self, map: MapId, at: u64, len: u64, wait: bool) -> Result<()> {
        self.vfs.msync(&self.caller, map_of(&mut self.maps, map)?, at, len, wait)
    }

    pub(super) fn do_munmap(&mut self, map: MapId) -> Result<()> {
        self.map(map)?;
        self.maps[map.0 as usize] = None;
        self.vfs.reap();
        Ok(())
    }
}
