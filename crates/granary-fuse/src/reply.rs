//! [`Reply`]: the answer to one request, sent by its owner, once.
//!
//! ```text
//!   OutHeader (on the stack) | structure (on the stack) | data, from where it lies   ──> one writev
//! ```
//!
//! Invariants: (1) sending takes the reply; (2) one that is dropped (a panic, an early return) says EIO; (3)
//! what the kernel does not take (too long, say) it is told of as EIO, so that nobody waits for ever.
//!
//! It does not know which kind of answer its request wants.
//!
//! Source: `include/uapi/linux/fuse.h`, `fuse_out_header`; `fuse_dev_do_write` of `fs/fuse/dev.c`.

use crate::abi::{
    AttrOut, EntryOut, GetxattrOut, InitOut, IoctlOut, LseekOut, OpenOut, OutHeader, Statfs, WriteOut,
};
use crate::device::Device;
use crate::listing::Listing;
use rustix::io::Errno;
use std::io::IoSlice;
use std::sync::Arc;
use zerocopy::IntoBytes;

/// See the module.
#[derive(Debug)]
#[must_use = "dropped, it says EIO"]
pub struct Reply {
    unique: u64,
    device: Option<Arc<Device>>,
}

impl Reply {
    pub(crate) fn new(unique: u64, device: &Arc<Device>) -> Reply {
        Reply { unique, device: Some(Arc::clone(device)) }
    }

    /// Done.
    pub fn ok(self) {
        self.send(&[], &[]);
    }

    /// It failed.
    pub fn error(mut self, error: Errno) {
        self.fail(error);
    }

    /// The node of a name.
    pub fn entry(self, entry: EntryOut) {
        self.send(entry.as_bytes(), &[]);
    }

    /// Attributes.
    pub fn attr(self, attr: AttrOut) {
        self.send(attr.as_bytes(), &[]);
    }

    /// An open file or directory.
    pub fn opened(self, file: OpenOut) {
        self.send(file.as_bytes(), &[]);
    }

    /// A new file, open.
    pub fn created(self, entry: EntryOut, file: OpenOut) {
        self.send(entry.as_bytes(), file.as_bytes());
    }

    /// Bytes: of a file, a symbolic link's target, an attribute's value.
    pub fn data(self, data: &[u8]) {
        self.send(data, &[]);
    }

    /// Entries of a directory.
    pub fn listing(self, listing: Listing) {
        self.send(listing.bytes(), &[]);
    }

    /// So many bytes were written.
    pub fn written(self, bytes: u32) {
        self.send(WriteOut { size: bytes, padding: 0 }.as_bytes(), &[]);
    }

    /// An extended attribute, or the list of their names, takes so many bytes.
    pub fn takes(self, bytes: u32) {
        self.send(GetxattrOut { size: bytes, padding: 0 }.as_bytes(), &[]);
    }

    /// A position in a file.
    pub fn offset(self, offset: u64) {
        self.send(LseekOut { offset }.as_bytes(), &[]);
    }

    /// An ioctl is done, and the caller's structure holds this now.
    pub fn ioctl(self, data: &[u8]) {
        self.send(IoctlOut::default().as_bytes(), data);
    }

    /// The answer to `statfs`.
    pub fn statfs(self, statfs: Statfs) {
        self.send(statfs.as_bytes(), &[]);
    }

    pub(crate) fn init(self, init: &InitOut) {
        self.send(init.as_bytes(), &[]);
    }

    fn send(mut self, first: &[u8], second: &[u8]) {
        let Some(device) = self.device.take() else { return };
        let len = size_of::<OutHeader>() + first.len() + second.len();
        let header = OutHeader { len: len as u32, error: 0, unique: self.unique };
        let parts = [header.as_bytes(), first, second].map(IoSlice::new);
        match device.write(&parts) {
            // Nobody waits for it any more.
            Ok(()) | Err(Errno::NOENT | Errno::NODEV | Errno::CONNABORTED) => {}
            Err(_) => {
                self.device = Some(device);
                self.fail(Errno::IO);
            }
        }
    }

    fn fail(&mut self, error: Errno) {
        let Some(device) = self.device.take() else { return };
        // The kernel takes 1 to 511.
        let error =
            Some(error.raw_os_error()).filter(|e| (1..512).contains(e)).unwrap_or(Errno::IO.raw_os_error());
        let header = OutHeader { len: size_of::<OutHeader>() as u32, error: -error, unique: self.unique };
        // There is nothing left to try.
        let _ = device.write(&[IoSlice::new(header.as_bytes())]);
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.fail(Errno::IO);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::{Attr, OpenedAs};
    use crate::{Handle, NodeId};
    use std::io::Read;
    use std::time::Duration;
    use zerocopy::FromBytes;

    /// The bytes that `answer` sends: (error, everything after the header).
    fn sent(answer: impl FnOnce(Reply)) -> (i32, Vec<u8>) {
        let (mut read, write) = std::io::pipe().expect("a pipe");
        let device = Arc::new(Device::from(rustix::fd::OwnedFd::from(write)));
        answer(Reply::new(77, &device));
        drop(device);
        let mut all = Vec::new();
        read.read_to_end(&mut all).expect("read");
        let (header, rest) = OutHeader::read_from_prefix(&all).expect("a header");
        assert_eq!((header.len as usize, header.unique), (all.len(), 77), "one reply");
        (header.error, rest.to_vec())
    }

    #[test]
    fn a_dropped_reply_says_eio_and_a_sent_one_says_nothing_more() {
        assert_eq!(sent(drop), (-5, vec![]));
        assert_eq!(sent(Reply::ok), (0, vec![]));
        let panicked = sent(|reply| {
            let panics = std::panic::AssertUnwindSafe(move || {
                let _reply = reply;
                panic!("planted");
            });
            assert!(std::panic::catch_unwind(panics).is_err());
        });
        assert_eq!(panicked, (-5, vec![]));
    }

    #[test]
    fn a_reply_is_sent_from_another_thread() {
        let later = sent(|reply| {
            std::thread::scope(|s| s.spawn(|| reply.written(3)).join()).expect("sent");
        });
        assert_eq!(later, (0, vec![3, 0, 0, 0, 0, 0, 0, 0]));
    }

    #[test]
    fn errors_are_negative_and_within_what_the_kernel_takes() {
        assert_eq!(sent(|r| r.error(Errno::NOSYS)), (-38, vec![]));
        assert_eq!(sent(|r| r.error(Errno::from_raw_os_error(600))), (-5, vec![]));
    }

    #[test]
    fn data_is_sent_as_it_lies() {
        assert_eq!(sent(|r| r.data(b"bytes")), (0, b"bytes".to_vec()));
        let mut list = Listing::new(4096);
        assert!(list.add(1, 2, 4, b"d"));
        let bytes = list.bytes().to_vec();
        assert_eq!(sent(|r| r.listing(list)).1, bytes);
    }

    #[test]
    fn structures_are_those_of_the_kernel() {
        let attr = Attr { ino: 5, size: 6, mode: 0o100_600, nlink: 0, ..Attr::default() };
        let entry = EntryOut::new(attr, 9, Duration::from_secs(2), Duration::from_nanos(1_000_000_003));
        let (_, bytes) = sent(|r| r.entry(entry));
        assert_eq!(EntryOut::read_from_bytes(&bytes).expect("whole"), entry);
        assert_eq!((entry.nodeid, entry.entry_valid, entry.attr_valid, entry.attr_valid_nsec), (5, 2, 1, 3));
        let file = OpenOut::new(Handle(4), OpenedAs::KEEP_CACHE);
        let (_, bytes) = sent(|r| r.created(entry, file));
        let (first, rest) = EntryOut::read_from_prefix(&bytes).expect("first the entry");
        assert_eq!((first, OpenOut::read_from_bytes(rest).expect("then the file")), (entry, file));
        let (_, bytes) = sent(|r| r.attr(AttrOut::new(attr, Duration::from_secs(30))));
        assert_eq!(AttrOut::read_from_bytes(&bytes).expect("whole").attr, attr);
        assert_eq!(sent(|r| r.opened(file)).1, [4, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(sent(|r| r.takes(7)).1, [7, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(sent(|r| r.offset(8)).1, [8, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(sent(|r| r.statfs(Statfs::default())).1.len(), 80);
        assert_eq!(NodeId::ROOT, NodeId(1));
    }
}
