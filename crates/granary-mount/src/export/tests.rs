//! The file's bytes behave as a file's, although pages lie below: checked against a plain array.

use super::*;
use granary_device::Drive;
use granary_mssd::{DriveConfig, Mode, Mssd};
use granary_sim::rng::Stream;
use granary_units::Bytes;

fn shared(size: Bytes) -> Export {
    let mut config = DriveConfig::bytefs_emulator().with_mode(Mode::Cache);
    config.flash = config.flash.with_capacity(size);
    let drive: Arc<dyn Drive> = Arc::new(Mssd::new(&config).expect("a drive"));
    let port = Port::new(drive);
    Export {
        size: port.info().pages * PAGE,
        port,
        read_only: false,
        edges: RwLock::new(()),
        operations: Arc::default(),
        stats: None,
        options: Options::default(),
        born: Duration::ZERO,
    }
}

/// The drive's counters of this export.
fn commands(s: &Export) -> granary_device::DriveCounters {
    s.port.drive().counters()
}

#[test]
fn bytes_written_anywhere_are_read_back_and_holes_are_zeros() {
    const SPAN: u64 = 40 * PAGE;
    let s = shared(Bytes::mib(64));
    let mut model = vec![0u8; SPAN as usize];
    let mut rng = Stream::new(1, "export");
    for step in 0..3000u64 {
        let unit = [1, 512, PAGE][rng.below(3) as usize];
        let pos = rng.below(SPAN / unit) * unit;
        let len = (1 + rng.below(6 * PAGE / unit)) * unit;
        let end = SPAN.min(pos + len);
        let range = pos as usize..end as usize;
        match rng.below(5) {
            0 | 1 => {
                let bytes: Vec<u8> = (pos..end).map(|i| (i ^ step) as u8).collect();
                s.write(pos, &bytes).expect("written");
                model[range].copy_from_slice(&bytes);
            }
            2 => {
                let zero =
                    if step % 2 == 0 { FallocateFlags::ZERO_RANGE } else { FallocateFlags::PUNCH_HOLE };
                let mode = (zero | FallocateFlags::KEEP_SIZE).bits();
                s.fallocate(pos, end - pos, mode).expect("cleared");
                model[range].fill(0);
            }
            _ => assert!(s.read(pos, end - pos).expect("read") == model[range], "step {step}: {pos}..{end}"),
        }
    }
    assert_eq!(s.read(0, SPAN).expect("read"), model);
}

#[test]
fn a_request_of_whole_pages_is_one_command_and_a_flush_none_without_a_cache() {
    let s = shared(Bytes::mib(64));
    let before = commands(&s);
    s.write(8 * PAGE, &[7; 16 * PAGE_SIZE]).expect("written");
    s.read(8 * PAGE, 16 * PAGE).expect("read");
    s.flush().expect("flushed");
    s.fallocate(8 * PAGE, 16 * PAGE, FallocateFlags::PUNCH_HOLE.bits()).expect("trimmed");
    let c = commands(&s).since(&before).commands;
    assert_eq!((c.writes, c.write_pages, c.reads, c.read_pages), (1, 16, 1, 16));
    assert_eq!((c.flushes, c.trim_pages), (0, 16));
    // 512 bytes into a page: one page is read, one written.
    s.write(3 * PAGE + 512, &[7; 512]).expect("written");
    let c = commands(&s).since(&before).commands;
    assert_eq!((c.writes, c.reads), (2, 2));
}

#[test]
fn nothing_lies_beyond_the_drives_end() {
    let s = shared(Bytes::mib(64));
    assert_eq!(s.read(s.size, 1).expect("read"), b"");
    assert_eq!(s.read(s.size - 10, 100).expect("read").len(), 10);
    for refused in [s.write(s.size - 1, &[1, 2]), s.write(u64::MAX, &[1]), s.fallocate(s.size, 1, 0)] {
        assert_eq!(refused.expect_err("refused"), Errno::NOSPC);
    }
}
