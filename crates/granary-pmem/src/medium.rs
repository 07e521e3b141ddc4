//! [`Medium`]: where the content of the DIMMs lives.
//!
//! The content of a medium survives power loss. The DIMMs call in keeping with their own rules, so a medium
//! needs no checks of its own: addresses lie within its pages, and no range leaves its page. It does *not*
//! know time, processors' caches or what is fenced.

mod kept;
mod ram;

use granary_units::{Page, Payload};
pub use kept::KeptMedium;
pub use ram::RamMedium;
use std::io;

/// Stores pages of 4 KiB, and changes them by the byte.
///
/// All methods that touch content may fail with the error of the file behind the medium; one in memory never
/// does.
pub trait Medium: Send {
    /// Pages that the medium was made for.
    fn pages(&self) -> u64;

    /// The content of a page.
    fn page(&self, page: u64) -> io::Result<Page>;

    /// Copies bytes `from..from + out.len()` of a page out.
    fn read(&self, page: u64, from: usize, out: &mut [u8]) -> io::Result<()> {
        self.page(page).map(|content| content.copy_out(from, out))
    }

    /// Overwrites bytes of a page from `from` on; a fill is in phase with the page.
    fn write(&mut self, page: u64, from: usize, data: Payload<'_>) -> io::Result<()>;

    /// Gives a page new content.
    fn replace(&mut self, page: u64, content: &Page) -> io::Result<()>;

    /// A copy that changes by itself from here on. `None`: it lies on a file, which has no second copy.
    fn second(&self) -> Option<Self>
    where
        Self: Sized,
    {
        None
    }

    /// Whether content outlives the process. Then the owner of the medium says when it must
    /// ([`Medium::publish`]).
    fn outlives(&self) -> bool {
        false
    }

    /// Keeps all writes so far, even if the process dies from now on. Some of the later writes may be kept,
    /// too.
    fn publish(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Looks at all that was ever written: the pages whose content does not fit its checksum. A medium
    /// without checksums has none.
    ///
    /// # Errors
    /// The file cannot be read at all.
    fn damaged(&self) -> io::Result<Vec<u64>> {
        Ok(Vec::new())
    }

    /// Makes everything durable on the machine that runs the emulation.
    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}
