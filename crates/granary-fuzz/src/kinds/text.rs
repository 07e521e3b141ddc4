//! Text from outside: workloads, job files, testbeds, traces.

use granary_bench::Recorded;
use granary_bench::memory::{Limits, Need, Use};
use granary_device::{Command, Drive, Structure};
use granary_mssd::{DriveConfig, Mode, Mssd};
use granary_pmem::Dimm;
use granary_testbed::Testbed;
use granary_trace::drive::{self as trace, Choice, Format};
use granary_units::{Lpa, Nanos, PAGE_SIZE, Page};
use granary_workload::Workload;
use std::io::Cursor;
use std::sync::Arc;

/// Events of a trace that are looked at.
const MOST_EVENTS: usize = 100_000;
/// Memory that a drive may need to be made.
const MOST_MEMORY: u64 = 64 << 20;

/// Reads a workload, makes it smaller and asks what it says.
pub(super) fn filebench(bytes: &[u8]) {
    match Workload::parse_bytes("fuzz.f", bytes, &[]) {
        Ok(workload) => use_up(workload),
        Err(e) => drop(e.to_string()),
    }
}

fn use_up(mut workload: Workload) {
    let _ = workload.expected_bytes();
    if workload.scale(0.001).is_ok() {
        let _ = (workload.expected_bytes(), workload.threads());
    }
    let _ = workload.set_threads(3);
}

/// Reads a job file as one of file systems and as one of drives.
pub(super) fn fio(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match Workload::from_fio("fuzz.fio", &text) {
        Ok(workload) => use_up(workload),
        Err(mistakes) => drop(mistakes.to_string()),
    }
    match granary_bench::fio::jobs("fuzz.fio", &text) {
        Ok((jobs, _)) => drop(granary_bench::job::check_all(&jobs, 1 << 30)),
        Err(e) => drop(e.to_string()),
    }
}

/// Loads a testbed and makes its devices, where they are small; they answer a few commands.
pub(super) fn testbed(bytes: &[u8]) {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), bytes).expect("writes to it");
    let path = file.path().display().to_string();
    let testbed = match Testbed::load(&path, &[]) {
        Ok(testbed) => testbed,
        Err(e) => return drop(e.to_string()),
    };
    let _ = (testbed.values(), testbed.hash(), Testbed::warnings(&path));
    if let Some(ssd) = &testbed.drive {
        try_ssd(ssd);
    }
    if let Some(nvm) = testbed.device.nvm.as_ref().filter(|nvm| Need::of_nvm(nvm).reserved < MOST_MEMORY) {
        drop(Dimm::new(nvm).map(|dimm| dimm.info()));
    }
}

fn fits(need: Need) -> bool {
    Limits::here().is_ok_and(|limits| need.must_fit("fuzz", &limits, |_| String::new()).is_ok())
}

fn try_ssd(config: &DriveConfig) {
    let need = Need::of_ssd(config, Use::NEW);
    if need.reserved > MOST_MEMORY || !fits(need) {
        return;
    }
    let Ok(drive) = Mssd::new(config) else { return };
    work(&drive);
    drive.check().expect("the drive is consistent");
}

/// A few commands at the ends of a drive and beyond.
fn work(drive: &dyn Drive) {
    let (what, last) = (Structure::Data, drive.info().pages - 1);
    let mut now = Nanos::ZERO;
    for lpa in [0, last / 2, last, last + 1] {
        let write = Command::Write { lpa: Lpa(lpa), pages: &[Page::word(lpa + 1)], what };
        now = drive.submit(now, write).unwrap_or(now);
        let out = &mut [Page::ZERO];
        now = drive.submit(now, Command::Read { lpa: Lpa(lpa), out, what }).unwrap_or(now);
        now = drive.load(now, Lpa(lpa).byte(), &mut [0; PAGE_SIZE], what).unwrap_or(now);
    }
    let _ = drive.submit(now, Command::Flush).and_then(|now| drive.settle(now));
}

/// Reads a trace in the format that it seems to have, and in that which its first byte chooses.
pub(super) fn trace(bytes: &[u8]) {
    read_trace(bytes);
    if let Some(sealed) = sealed(bytes) {
        read_trace(&sealed);
    }
    match Workload::from_fiu("fuzz", bytes) {
        Ok(workload) => use_up(workload),
        Err(mistakes) => drop(mistakes.to_string()),
    }
}

/// A record of ours whose header has the right length and checksum; of what follows only a whole trace has
/// one.
fn sealed(bytes: &[u8]) -> Option<Vec<u8>> {
    let rest = bytes.strip_prefix(trace::native::MAGIC)?;
    let (len, rest) = (rest.get(4..8)?.first_chunk()?, rest.get(8..)?);
    let len = (u32::from_le_bytes(*len) as usize).min(rest.len().checked_sub(4)?);
    let mut sealed = bytes.to_vec();
    sealed[12..16].copy_from_slice(&(len as u32).to_le_bytes());
    let sum = crc32c::crc32c(&sealed[..16 + len]);
    sealed[16 + len..20 + len].copy_from_slice(&sum.to_le_bytes());
    Some(sealed)
}

/// A record of some commands.
pub(super) fn record() -> Vec<u8> {
    let config = DriveConfig::tiny(Mode::Log);
    let header = trace::native::Header {
        granary: String::new(),
        source: "drive bench".to_owned(),
        testbed: "t".to_owned(),
        set: Vec::new(),
        seed: 1,
        precondition: "none".to_owned(),
        drive: config.clone(),
    };
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    let drive = Arc::new(Mssd::new(&config).expect("a drive"));
    let recorded = Recorded::create(file.path(), &header, drive).expect("a record");
    work(&recorded);
    recorded.finish().expect("it ends");
    std::fs::read(file.path()).expect("it is there")
}

fn read_trace(bytes: &[u8]) {
    let chosen = bytes.first().map(|b| Format::ALL[usize::from(*b) % Format::ALL.len()]);
    for format in [None, chosen] {
        let choice = Choice { format, cut: bytes.len().is_multiple_of(2), ..Choice::default() };
        let input = Box::new(Cursor::new(bytes.to_vec()));
        let mut trace = match trace::read("fuzz", input, bytes.len() as u64, &choice) {
            Ok(trace) => trace,
            Err(e) => {
                drop(e.to_string());
                continue;
            }
        };
        for _ in 0..MOST_EVENTS {
            match trace.source.next_event() {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(e) => {
                    drop(e.to_string());
                    break;
                }
            }
        }
        let _ = (trace.source.seen(), trace.source.nothing());
    }
}
