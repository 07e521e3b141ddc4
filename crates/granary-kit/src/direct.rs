//! O_DIRECT for file systems whose blocks are pages: from a request's bytes to pages and back.
//!
//! ```text
//!   10,000 B at 3000:   page 0 from 3000 on | page 1 | page 2 | page 3 up to 712      parts
//!                       read first                            read first              merged
//! ```
//!
//! It does *not* know where a page lies: the file system reads and writes them.

use granary_fs::Result;
use granary_units::{Dest, PAGE_SIZE, Page, Payload};

const PAGE: u64 = PAGE_SIZE as u64;
/// Pages read together; bounds the memory of one large request.
pub const CHUNK: u64 = 256;

/// The part of a request that lies in one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The page of the file.
    pub page: u64,
    /// First byte in it.
    pub inside: usize,
    /// Bytes of the request before it.
    pub done: usize,
    /// Bytes, at least one.
    pub len: usize,
}

/// The parts of a request for `len` bytes at `pos`, in order.
pub fn parts(pos: u64, len: usize) -> impl Iterator<Item = Part> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = pos + done as u64;
        let inside = (at % PAGE) as usize;
        let part = Part { page: at / PAGE, inside, done, len: (PAGE_SIZE - inside).min(len - done) };
        done += part.len;
        (part.len > 0).then_some(part)
    })
}

/// Reads the bytes from `pos` on into `dest`. `read` fills pages from a page of the file on, at most
/// [`CHUNK`] at a time.
///
/// # Errors
/// Those of `read`.
pub fn read(
    pos: u64,
    mut dest: Dest<'_>,
    mut read: impl FnMut(u64, &mut [Page]) -> Result<()>,
) -> Result<()> {
    let mut done = 0;
    while done < dest.len() {
        let at = pos + done as u64;
        let first = at / PAGE;
        let n = (dest.len() - done).min(((first + CHUNK) * PAGE - at) as usize);
        let mut pages = vec![Page::ZERO; ((at + n as u64).div_ceil(PAGE) - first) as usize];
        read(first, &mut pages)?;
        for part in parts(at, n) {
            let page = &pages[(part.page - first) as usize];
            dest.part(done + part.done, part.len).copy_from(page, part.inside);
        }
        done += n;
    }
    Ok(())
}

/// The pages that a write of `data` (not empty) at `pos` leaves in a file of `size` bytes. Bytes of the first
/// and last page that the write does not overwrite are read. Bytes past the old end are zero.
///
/// # Errors
/// Those of `read`, which fills one page of the file.
pub fn merged(
    pos: u64,
    data: Payload<'_>,
    size: u64,
    mut read: impl FnMut(u64, &mut [Page]) -> Result<()>,
) -> Result<Vec<Page>> {
    let end = pos + data.len() as u64;
    let (first, last) = (pos / PAGE, (end - 1) / PAGE);
    let mut pages = vec![Page::ZERO; (last - first + 1) as usize];
    // Overwritten, up to the page's or the file's end.
    let whole = |at: u64| at >= pos && (at + PAGE <= end || at + PAGE >= size && end >= size);
    for at in [first, last][..1 + usize::from(first != last)].iter().map(|page| page * PAGE) {
        if !whole(at) && at < size {
            let page = &mut pages[(at / PAGE - first) as usize];
            read(at / PAGE, std::slice::from_mut(page))?;
            if size - at < PAGE {
                page.zero_from((size - at) as usize);
            }
        }
    }
    for part in parts(pos, data.len()) {
        pages[(part.page - first) as usize].write(part.inside, data.part(part.done, part.len));
    }
    Ok(pages)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of bytes, read page by page; beyond its end there is anything.
    fn page_of(file: &[u8], page: u64) -> Page {
        let mut bytes = [0xee; PAGE_SIZE];
        let from = (page as usize * PAGE_SIZE).min(file.len());
        let n = (file.len() - from).min(PAGE_SIZE);
        bytes[..n].copy_from_slice(&file[from..from + n]);
        Page::from_bytes(&bytes)
    }

    fn file(len: usize) -> Vec<u8> {
        (0..len).map(|i| (i * 7 + i / 4096) as u8).collect()
    }

    /// A read takes the file's bytes, at any borders, in chunks of bounded length.
    #[test]
    fn a_read_at_any_place_is_the_files_bytes() {
        let file = file(3 * CHUNK as usize * PAGE_SIZE);
        for (pos, len) in
            [(0, 0), (5, 1), (4095, 2), (4096, 4096), (3000, 10_000), (1, 2 * 256 * 4096 + 4095)]
        {
            let mut out = vec![0; len];
            read(pos as u64, Dest::Bytes(&mut out), |first, pages| {
                assert!(!pages.is_empty() && pages.len() as u64 <= CHUNK);
                for (i, page) in pages.iter_mut().enumerate() {
                    *page = page_of(&file, first + i as u64);
                }
                Ok(())
            })
            .expect("it is in memory");
            assert!(out == file[pos..pos + len], "{len} bytes at {pos}");
        }
    }

    /// A write leaves what it does not overwrite, and zeros between and behind; it reads no page that it
    /// overwrites.
    #[test]
    fn a_write_at_any_place_keeps_the_rest() {
        for size in [0, 1, 4096, 6000, 20_000] {
            let old = file(size);
            for (pos, len) in [
                (0usize, 1usize),
                (0, 4096),
                (3000, 10_000),
                (4096, 8192),
                (5999, 2),
                (0, 20_000),
                (20_000, 5),
            ] {
                let data = vec![0xa5; len];
                let mut reads = 0;
                let pages = merged(pos as u64, Payload::Bytes(&data), size as u64, |page, out| {
                    let (at, end) = (page as usize * PAGE_SIZE, (page as usize + 1) * PAGE_SIZE);
                    assert!(pos > at || pos + len < end.min(size), "an overwritten page is read");
                    reads += 1;
                    out[0] = page_of(&old, page);
                    Ok(())
                })
                .expect("it is in memory");
                assert!(reads <= pages.len().min(2), "a page is read twice");
                let mut new = old.clone();
                new.resize(size.max(pos + len), 0);
                new[pos..pos + len].copy_from_slice(&data);
                for (i, page) in pages.iter().enumerate() {
                    let from = (pos / PAGE_SIZE + i) * PAGE_SIZE;
                    let mut want = [0; PAGE_SIZE];
                    let n = new.len().saturating_sub(from).min(PAGE_SIZE);
                    want[..n].copy_from_slice(&new[from..from + n]);
                    assert!(page.to_bytes() == want, "{len} bytes at {pos} of {size}, page {i}");
                }
            }
        }
    }
}
