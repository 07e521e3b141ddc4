//! [`Job`]s on a drive: whether one fits, and which part of the drive it touches.
//!
//! The jobs themselves are those of [`granary_trace::fio`], from a job file or from the command line.
//!
//! Invariant: what [`check`] lets pass, a bench can run: block commands move whole pages, a CPU has one store
//! under way.

pub use granary_trace::fio::{Access, Amount, Blocks, Job, Part, Pattern, stride};

use crate::error::BenchError;
use granary_trace::fio::Mistakes;
use granary_units::{Bytes, Nanos, PAGE_SIZE};

/// A mistake: the options to look at, and the reason.
type Fault = (&'static [&'static str], String);

/// The part of a drive of `capacity` bytes that the job touches.
///
/// # Errors
/// A value that does not fit, and one that would; of a job file with the line.
pub fn check(job: &Job, capacity: u64) -> Result<Part, BenchError> {
    check_all(std::slice::from_ref(job), capacity).map(|parts| parts[0])
}

/// The same for each of several jobs.
///
/// # Errors
/// The same, of a job file all that is wrong at once.
pub fn check_all(jobs: &[Job], capacity: u64) -> Result<Vec<Part>, BenchError> {
    let (mut parts, mut wrong) = (Vec::new(), Vec::new());
    for job in jobs {
        match (part(job, capacity), &job.lines) {
            (Ok(part), _) => parts.push(part),
            (Err((_, message)), None) => return Err(BenchError::BadJob { job: job.name.clone(), message }),
            (Err((keys, message)), Some(_)) => wrong.push(job.mistake(keys, message)),
        }
    }
    let file = jobs.iter().find_map(|j| j.lines.as_ref()).map_or("", |lines| lines.file.as_str());
    if wrong.is_empty() { Ok(parts) } else { Err(BenchError::BadJobFile(Mistakes::new(file, wrong))) }
}

fn part(job: &Job, capacity: u64) -> Result<Part, Fault> {
    sizes(job)?;
    counts(job)?;
    let (page, byte) = (PAGE_SIZE as u64, job.pattern.first.is_byte());
    // As in fio, a part of the whole begins at a block.
    let whole = |amount: Amount| match amount {
        Amount::Bytes(b) => b.0,
        Amount::Percent(_) => amount.of(capacity) / job.least() * job.least(),
    };
    let (offset, increment) = (whole(job.offset), whole(job.offset_increment));
    if !(byte || offset.is_multiple_of(page) && increment.is_multiple_of(page)) {
        let message = format!(
            "block commands move whole 4 KiB pages, not {} at {}: take a multiple, or load, store or persist",
            Bytes(job.most()),
            Bytes(offset)
        );
        return Err((&["offset", "offset_increment"], message));
    }
    let last = increment.saturating_mul(u64::from(job.clients) - 1).saturating_add(offset);
    let size = job.size.map(|s| s.of(capacity));
    let end = size.map_or(capacity, |s| last.saturating_add(s));
    let room = end.checked_sub(last).filter(|room| end <= capacity && *room >= job.most());
    match (room, size) {
        (Some(size), _) => Ok(Part { offset, increment, size }),
        (None, Some(size)) => Err((
            &["offset", "offset_increment", "size", "bs"],
            format!(
                "offset {} and size {} do not fit: the drive has {}, one access takes {}",
                Bytes(last),
                Bytes(size),
                Bytes(capacity),
                Bytes(job.most())
            ),
        )),
        (None, None) => Err((
            &["offset", "offset_increment", "bs"],
            format!(
                "offset {} leaves no room for an access of {}: the drive has {}",
                Bytes(last),
                Bytes(job.most()),
                Bytes(capacity)
            ),
        )),
    }
}

/// Sizes that an access can have.
fn sizes(job: &Job) -> Result<(), Fault> {
    let page = PAGE_SIZE as u64;
    for access in job.pattern.accesses() {
        let blocks = job.blocks_of(access);
        if access.is_byte() {
            if !blocks.is_fixed() {
                return Err((
                    &["bs"],
                    "through the byte window all accesses have one size: take one bs".to_owned(),
                ));
            }
            if blocks.least() == 0 || blocks.most() > 1 << 20 {
                let message =
                    format!("the byte window takes 1 B to 1 MiB at a time, not {}", Bytes(blocks.most()));
                return Err((&["bs"], message));
            }
        } else if matches!(blocks, Blocks::Between(..)) || job.align.is_some_and(|a| !a.is_multiple_of(page))
        {
            let message = "block commands move whole 4 KiB pages: take a bsrange and a blockalign of multiples, without bs_unaligned";
            return Err((&["bs", "bs_unaligned", "blockalign"], message.to_owned()));
        } else if let Some(bad) = blocks.sizes().into_iter().find(|s| *s == 0 || !s.is_multiple_of(page)) {
            let message = format!(
                "block commands move whole 4 KiB pages, not {}: take a multiple, or load, store or persist",
                Bytes(bad)
            );
            return Err((&["bs"], message));
        }
    }
    Ok(())
}

/// How much is under way, and what ends the job.
fn counts(job: &Job) -> Result<(), Fault> {
    let byte = job.pattern.first.is_byte();
    if byte && job.in_flight() > 1 && job.pattern.first != Access::Load {
        let message = "a CPU has one store under way: use numjobs instead of iodepth";
        return Err((&["iodepth"], message.to_owned()));
    }
    if byte && job.flush_every > 0 {
        let message = "a flush is a block command: persist makes what it stores safe by itself";
        return Err((&["fsync"], message.to_owned()));
    }
    if job.depth == 0 || job.clients == 0 || job.loops == 0 || job.read_percent > 100 {
        let message = "iodepth, numjobs and loops are at least 1, rwmixread at most 100";
        return Err((&["iodepth", "numjobs", "loops", "rwmixread"], message.to_owned()));
    }
    let nothing = job.accesses == Some(0) || job.io_size == Some(Amount::Bytes(Bytes::ZERO));
    if nothing || job.runtime == Some(Nanos::ZERO) {
        let message = "accesses and runtime are at least 1: with 0 nothing is measured; leave them out for one access of \
                       each block";
        return Err((&["runtime", "io_size"], message.to_owned()));
    }
    if job.time_based && job.runtime.is_none() {
        let message = "time_based needs a runtime: nothing else would end the job";
        return Err((&["time_based"], message.to_owned()));
    }
    Ok(())
}

/// Settings of a job beyond pattern, block size, depth, clients and place, as a job file says them; for
/// records.
pub fn extras(job: &Job) -> Vec<String> {
    let mut out = Vec::new();
    let mut note = |is: bool, text: String| {
        if is {
            out.push(text);
        }
    };
    for access in job.pattern.accesses() {
        let what = ["reads", "writes", "trims"][access.direction()];
        match job.blocks_of(access) {
            Blocks::Split(all) => {
                let parts: Vec<String> = all.iter().map(|(b, share)| format!("{}/{share}", b.0)).collect();
                note(true, format!("bssplit={} ({what})", parts.join(":")));
            }
            Blocks::Range(a, b) => note(true, format!("bsrange={}-{} ({what})", a.0, b.0)),
            Blocks::Between(a, b) => note(true, format!("bsrange={}-{} ({what}), bs_unaligned", a.0, b.0)),
            Blocks::Fixed(b) => note(job.least() != job.most(), format!("bs={} ({what})", b.0)),
        }
        if let Some(rate) = job.bytes_per_s(access) {
            note(true, format!("rate={rate} ({what})"));
        }
    }
    note(job.align.is_some(), format!("blockalign={}", job.align.unwrap_or(0)));
    note(job.stonewall, "stonewall".to_owned());
    note(job.synchronous, "one access under way (ioengine)".to_owned());
    note(
        job.offset_increment != Amount::Bytes(Bytes::ZERO),
        format!("offset_increment={}", job.offset_increment),
    );
    note(job.io_size.is_some(), format!("io_size={}", job.io_size.unwrap_or(Amount::Percent(100))));
    note(job.number_ios.is_some(), format!("number_ios={}", job.number_ios.unwrap_or(0)));
    note(job.loops > 1, format!("loops={}", job.loops));
    note(job.time_based && job.lines.is_some(), "time_based".to_owned());
    let (from, to) = job.start_delay;
    note(to > Nanos::ZERO, format!("startdelay={from}-{to}"));
    note(job.ramp > Nanos::ZERO, format!("ramp_time={}", job.ramp));
    note(job.think > Nanos::ZERO, format!("thinktime={} after {}", job.think, job.think_blocks));
    note(job.flush_every > 0, format!("fsync={}", job.flush_every));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_has_its_name() {
        for name in Pattern::NAMES {
            assert_eq!(&Pattern::named(name).expect("known").name(), name);
        }
        assert_eq!(Pattern::named("readwrite"), Pattern::named("rw"));
        assert_eq!(Pattern::named("trimwrite"), None);
    }

    fn mib() -> Job {
        Job { size: Some(Amount::Bytes(Bytes::mib(1))), ..Job::default() }
    }

    #[test]
    fn what_does_not_fit_is_refused_with_the_reason() {
        assert_eq!(check(&mib(), 1 << 20).expect("fits").size, 1 << 20);
        let why = |job: Job| check(&job, 1 << 20).expect_err("refused").to_string();
        let at = |offset| Amount::Bytes(offset);
        assert!(why(mib().with_block_size(Bytes(512))).contains("whole 4 KiB pages"));
        assert!(why(Job { offset: at(Bytes::kib(4)), ..mib() }).contains("do not fit"));
        assert!(why(Job { offset: at(Bytes::kib(1)), size: None, ..mib() }).contains("whole 4 KiB pages"));
        assert!(why(Job { depth: 0, ..mib() }).contains("iodepth"));
        assert!(why(Job { accesses: Some(0), ..mib() }).contains("nothing is measured"));
        assert!(why(Job { runtime: Some(Nanos::ZERO), ..mib() }).contains("nothing is measured"));
        assert!(why(Job { time_based: true, ..mib() }).contains("needs a runtime"));
        let beyond = why(Job { offset: at(Bytes::mib(2)), size: None, ..mib() });
        assert!(beyond.contains("offset 2MiB leaves no room") && !beyond.contains("size"), "{beyond}");
        let store = Pattern::named("store").expect("known");
        assert!(why(Job { pattern: store, depth: 2, ..mib() }).contains("numjobs"));
        assert!(why(Job { pattern: store, flush_every: 1, ..mib() }).contains("persist"));
        let increment = at(Bytes::kib(512));
        assert!(why(Job { clients: 2, offset_increment: increment, ..mib() }).contains("do not fit"));
        let pages = Blocks::Range(Bytes::kib(4), Bytes::kib(8));
        let varied = Job { pattern: store, blocks: [pages.clone(), pages.clone(), pages], ..mib() };
        assert!(why(varied).contains("one size"));
    }

    #[test]
    fn parts_of_the_drive_begin_at_a_block() {
        let job = Job {
            offset: Amount::Percent(33),
            size: Some(Amount::Percent(50)),
            ..Job::default().with_block_size(Bytes::kib(64))
        };
        let part = check(&job, 1 << 20).expect("fits");
        assert_eq!((part.offset, part.size), (5 << 16, 1 << 19));
    }

    /// Mistakes that only show when a job is put together, or put on a drive, are reported with the line all
    /// the same.
    #[test]
    fn a_job_that_cannot_run_is_refused_with_the_line_at_fault() {
        let why = |text: &str| {
            let jobs = granary_trace::fio::parse("f", text).expect("each line is good").jobs;
            check_all(&jobs, 1 << 30).expect_err("refused").to_string()
        };
        let said = why("[a]\nrw=read\nblocksize=3k\n");
        assert!(said.starts_with("f, line 3: job a: block commands move whole 4 KiB pages"), "{said}");
        let said = why("[global]\noffset=1k\nbs=4k\n[a]\nrw=read\n");
        assert!(said.starts_with("f, line 2: job a: "), "{said}");
        let said = why("[global]\nbs=4k\n\n[a]\ntime_based\nrw=read\n");
        assert!(said.starts_with("f, line 5: job a: time_based needs a runtime"), "{said}");
        let said = why("[a]\nsize=1m\noffset=1g\nbs=4k\n");
        assert!(said.starts_with("f, line 4: job a: offset 1GiB and size 1MiB do not fit"), "{said}");
        let said = why("[a]\nbs=3k\n[b]\nbs=5k\n");
        assert!(said.contains("\n  line 2: job a: ") && said.contains("\n  line 4: job b: "), "{said}");
    }
}
