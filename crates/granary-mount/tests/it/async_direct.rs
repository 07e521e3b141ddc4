//! Asynchronous direct writes (io_submit) beside buffered readers: the kernel keeps no page of what was
//! before.
//!
//! Source: io_setup(2), io_submit(2), io_getevents(2); `struct iocb` of linux/aio_abi.h.
#![allow(unsafe_code, reason = "io_submit has no safe wrapper")]

use super::rig::{any, each, possible};
use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const PIECE: usize = 640 << 10;
const SIZE: usize = 16 * PIECE;
/// IOCB_CMD_PWRITE.
const PWRITE: u16 = 1;

#[repr(C)]
#[derive(Default)]
struct Iocb {
    data: u64,
    key: u32,
    rw_flags: u32,
    opcode: u16,
    priority: i16,
    file: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event_file: u32,
}

#[repr(C)]
#[derive(Clone, Default)]
struct Event {
    data: u64,
    iocb: u64,
    result: i64,
    more: i64,
}

/// A context of asynchronous calls.
struct Aio(u64);

impl Aio {
    fn new() -> Option<Aio> {
        let mut context = 0u64;
        // SAFETY: the kernel writes one word, to a variable that lives through the call.
        let made = unsafe { libc::syscall(libc::SYS_io_setup, 8, &raw mut context) };
        (made == 0).then_some(Aio(context))
    }

    /// Writes all pieces side by side, and waits for all of them.
    fn write(&self, file: &File, pieces: &[(&[u8], u64)]) {
        let mut calls: Vec<Iocb> = pieces
            .iter()
            .map(|(bytes, offset)| Iocb {
                opcode: PWRITE,
                file: file.as_raw_fd() as u32,
                buffer: bytes.as_ptr().addr() as u64,
                bytes: bytes.len() as u64,
                offset: *offset as i64,
                ..Iocb::default()
            })
            .collect();
        let mut list: Vec<*mut Iocb> = calls.iter_mut().map(|c| c as *mut Iocb).collect();
        let n = list.len();
        // SAFETY: as many pointers as are said, to structures and buffers that live until all results are
        // there, below.
        let sent = unsafe { libc::syscall(libc::SYS_io_submit, self.0, n, list.as_mut_ptr()) };
        assert_eq!(sent, n as i64);
        let mut events = vec![Event::default(); n];
        // SAFETY: room for as many results as are asked for; without a time limit all of them come.
        let got = unsafe {
            libc::syscall(libc::SYS_io_getevents, self.0, n, n, events.as_mut_ptr(), std::ptr::null::<u8>())
        };
        assert_eq!(got, n as i64);
        assert!(events.iter().all(|e| e.result == PIECE as i64), "{}", events[0].result);
    }
}

impl Drop for Aio {
    fn drop(&mut self) {
        // SAFETY: a context of this process; nothing is under way in it.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.0) };
    }
}

/// Ends the readers, also where the writer has failed.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[repr(align(4096))]
struct Aligned([u8; PIECE]);

#[test]
fn asynchronous_direct_writes_leave_no_old_pages_in_the_kernel() {
    if !possible() {
        return;
    }
    each(|rig| {
        let Some(aio) = Aio::new() else { return granary_suite::skip::skipped("no io_setup here") };
        let path = rig.path("f");
        fs::write(&path, vec![0; SIZE]).expect("written");
        let Ok(direct) = OpenOptions::new().read(true).write(true).custom_flags(libc::O_DIRECT).open(&path)
        else {
            return eprintln!("no O_DIRECT on {}: nothing to test", rig.fs);
        };
        let over = AtomicBool::new(false);
        let rounds = if rig.fs == any().name { 300 } else { 40 };
        std::thread::scope(|scope| {
            let _over = Over(&over);
            for reader in 0..4 {
                let (path, over) = (&path, &over);
                scope.spawn(move || {
                    let file = File::open(path).expect("opened");
                    let mut buffer = vec![0; 128 << 10];
                    for n in reader.. {
                        if over.load(Relaxed) {
                            return;
                        }
                        let at = n * 7919 * 4096 % (SIZE - buffer.len());
                        file.read_exact_at(&mut buffer, at as u64).expect("read");
                    }
                });
            }
            let mut buffers: Vec<Box<Aligned>> = (0..2).map(|_| Box::new(Aligned([0; PIECE]))).collect();
            for round in 1..=rounds {
                buffers.iter_mut().for_each(|b| b.0.fill(round as u8));
                let place = |n: usize| ((round * 5 + n * 8) % 16 * PIECE) as u64;
                let pieces: Vec<(&[u8], u64)> =
                    buffers.iter().enumerate().map(|(n, b)| (&b.0[..], place(n))).collect();
                aio.write(&direct, &pieces);
                // A reader that has waited for the write reads the new data.
                let mut seen = [0];
                let file = File::open(&path).expect("opened");
                file.read_exact_at(&mut seen, place(0) + 4096).expect("read");
                assert_eq!(seen[0], round as u8, "{}, round {round}", rig.fs);
            }
        });
        let mut on_media = Box::new(Aligned([0; PIECE]));
        let cached = fs::read(&path).expect("read");
        for (n, kept) in cached.chunks(PIECE).enumerate() {
            direct.read_exact_at(&mut on_media.0, (n * PIECE) as u64).expect("read");
            let differs = on_media.0.iter().zip(kept).position(|(a, b)| a != b);
            assert_eq!(differs, None, "{}, piece {n}", rig.fs);
        }
    });
}
