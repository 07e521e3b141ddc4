//! Inputs that once did what none may.

use granary_device::{Drive, DriveError, Port, Streamed, Structure};
use granary_fs::FsError;
use granary_fuzz::Kind;
use granary_fuzz::campaign::one;
use granary_kit::BlockCache;
use granary_mssd::{DriveConfig, Mode, Mssd};
use granary_pmem::{Dimm, DimmConfig};
use granary_units::{Bytes, Lpa, Nanos, Payload};
use std::sync::Arc;

/// The address of its bytes does not exist: computing it was a panic, which a damaged record of a drive could
/// bring about.
#[test]
fn a_stream_to_a_page_far_beyond_the_end_is_refused() {
    let ssd: Arc<dyn Drive> = Arc::new(Mssd::new(&DriveConfig::tiny(Mode::Log)).expect("a drive"));
    let nvm = DimmConfig::optane_dcpmm().with_capacity(Bytes::mib(1));
    let nvm: Arc<dyn Drive> = Arc::new(Dimm::new(&nvm).expect("a DIMM"));
    for drive in [ssd, nvm] {
        for lpa in [drive.info().pages, 1 << 52, u64::MAX] {
            let data = Streamed::Part(Payload::Fill { word: 1, len: 64 });
            let done = drive.stream(Nanos::ZERO, Lpa(lpa), 0, data, Structure::Data);
            assert!(matches!(done, Err(DriveError::OutOfRange { .. })), "{lpa}: {done:?}");
        }
    }
}

/// A group's descriptor of ext4 named a table far beyond the end, and the cache's own table was to become as
/// long: an abort.
#[test]
fn a_metadata_block_far_beyond_the_end_takes_no_memory() {
    let drive = Arc::new(Mssd::new(&DriveConfig::tiny(Mode::Cache)).expect("a drive"));
    let (cache, end) = (BlockCache::new(Port::new(drive.clone()), Bytes::mib(1)), drive.info().pages);
    for lpa in [end, 1 << 40, 1 << 52, u64::MAX] {
        let got = cache.get(Lpa(lpa), Structure::Inode).map(|_| ());
        assert!(matches!(got, Err(FsError::Drive(DriveError::OutOfRange { .. }))), "{lpa}: {got:?}");
    }
    assert!(cache.get(Lpa(end - 1), Structure::Inode).is_ok());
    assert!(cache.is_empty() || cache.len() == 1, "{} blocks", cache.len());
}

/// A block trace with a record of no bytes before what the others touch: a subtraction overflowed.
#[test]
fn a_record_of_no_bytes_before_all_others_is_read() {
    let trace = b"0 4892 syslogd 904265560 8 W 6 0 531e779e5cd8ea4ad6a5f2dd4e7ba9d1\n70 4892 a 8 0 R 6 0 x\n";
    assert_eq!(one(Kind::Trace, trace), None);
}

/// The watch and the campaign see a panic, else they would vouch for nothing.
#[test]
fn a_panic_of_an_input_is_told() {
    let number = Kind::all().count();
    let told = one(Kind::Image(number), b"no such file system").expect("a panic");
    assert!(told.contains("index out of bounds"), "{told}");
}
