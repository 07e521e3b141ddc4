//! [`Absent`]: in the place of a file that an image does not have.

use super::{HostFile, Map};
use std::io;
use std::ops::Range;

/// Holds nothing and takes nothing.
pub struct Absent;

fn absent<T>() -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::NotFound, "the image does not have this file"))
}

impl HostFile for Absent {
    fn len(&self) -> io::Result<u64> {
        Ok(0)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        if len == 0 { Ok(()) } else { absent() }
    }

    fn read_at(&self, _at: u64, out: &mut [u8]) -> io::Result<()> {
        if out.is_empty() { Ok(()) } else { absent() }
    }

    fn write_at(&self, _at: u64, data: &[u8]) -> io::Result<()> {
        if data.is_empty() { Ok(()) } else { absent() }
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }

    fn punch(&self, _at: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }

    fn next_data(&self, _at: u64) -> io::Result<Option<Range<u64>>> {
        Ok(None)
    }

    fn map(&self, _len: u64) -> io::Result<Option<Map>> {
        Ok(None)
    }
}
