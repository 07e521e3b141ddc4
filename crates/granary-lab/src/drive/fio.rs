//! fio job files: the subset that describes raw accesses to one drive.
//!
//! ```text
//!   [global]            applies to the jobs below it
//!   bs=4k
//!   [randread-qd32]     a job; all jobs run at the same time
//!   rw=randread
//!   iodepth=32
//! ```
//!
//! Read are `rw` (or `readwrite`), `bs` (or `blocksize`), `iodepth`, `size`, `numjobs`, `rwmixread`, `offset`, `runtime`,
//! `time_based` and `norandommap`; the byte interface adds `rw=load|store|persist` and their `rand` forms. Everything else is an error that names
//! the line, because a setting that is silently left out makes a result that means something else.
//!
//! Source: fio's HOWTO, "Job file format", "Parameter types".

use super::job::{Job, Lines, Pattern};
use crate::error::LabError;
use granary_units::{Bytes, Nanos};

const KEYS: &str = "rw, bs, iodepth, size, numjobs, rwmixread, offset, runtime, time_based, norandommap";

/// The jobs of a file.
///
/// # Errors
/// The line and what is wrong with it.
pub fn parse(file: &str, text: &str) -> Result<Vec<Job>, LabError> {
    let lines = Lines { file: file.to_owned(), ..Lines::default() };
    let mut global = Job { lines: Some(lines), ..Job::default() };
    let (mut jobs, mut in_global) = (Vec::<Job>::new(), None);
    for (n, raw) in text.lines().enumerate() {
        let bad = |message: String| LabError::BadJobFile { file: file.to_owned(), line: n + 1, message };
        let line = raw.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(section) = line.strip_prefix('[') {
            let name = section.strip_suffix(']').map(str::trim).filter(|s| !s.is_empty());
            let name = name.ok_or_else(|| bad(format!("'{line}' is no section: write [name]")))?;
            in_global = Some(name == "global");
            if name != "global" {
                let lines = global.lines.clone().map(|lines| Lines { section: n + 1, ..lines });
                jobs.push(Job { name: name.to_owned(), lines, ..global.clone() });
            }
            continue;
        }
        let (key, value) = match line.split_once('=') {
            Some((key, value)) => (key.trim(), Some(value.trim())),
            None => (line, None),
        };
        let job = match in_global {
            Some(true) => &mut global,
            Some(false) => jobs.last_mut().expect("a section was opened"),
            None => {
                return Err(bad(format!(
                    "'{key}' stands before the first section: begin with [global] or [name]"
                )));
            }
        };
        let key = set(job, key, value).map_err(bad)?;
        if let Some(lines) = &mut job.lines {
            lines.note(key, n + 1);
        }
    }
    if jobs.is_empty() {
        let message = "there is no job: add a section such as [randread] with rw=randread".to_owned();
        return Err(LabError::BadJobFile {
            file: file.to_owned(),
            line: text.lines().count().max(1),
            message,
        });
    }
    Ok(jobs)
}

/// Sets what the line says; the key's own name.
fn set(job: &mut Job, key: &str, value: Option<&str>) -> Result<&'static str, String> {
    let given = value.filter(|v| !v.is_empty()).ok_or_else(|| format!("'{key}' needs a value: {key}=..."));
    Ok(match key {
        "rw" | "readwrite" => {
            let name = given?;
            job.pattern = Pattern::named(name)
                .ok_or_else(|| format!("rw={name}: there are {}", Pattern::NAMES.join(", ")))?;
            "rw"
        }
        "bs" | "blocksize" => {
            job.block_size = size(key, given?)?;
            "bs"
        }
        "size" => {
            job.size = Some(size(key, given?)?);
            "size"
        }
        "offset" => {
            job.offset = size(key, given?)?;
            "offset"
        }
        "iodepth" => {
            job.depth = number(key, given?)?;
            "iodepth"
        }
        "numjobs" => {
            job.clients = number(key, given?)?;
            "numjobs"
        }
        "rwmixread" => {
            job.read_percent = number(key, given?)?;
            if job.read_percent > 100 {
                return Err(format!("rwmixread={}: a percentage", job.read_percent));
            }
            "rwmixread"
        }
        "runtime" => {
            job.runtime = Some(time(given?)?);
            "runtime"
        }
        "time_based" => {
            job.time_based = flag(key, value)?;
            "time_based"
        }
        "norandommap" => {
            job.random_map = !flag(key, value)?;
            "norandommap"
        }
        _ => return Err(format!("'{key}' is not supported: remove it; supported are {KEYS}")),
    })
}

/// Sizes as fio writes them: `k`, `m`, `g`, `kb`... are powers of 1024. `KiB` are 1000 bytes to fio as long as `kb_base` is
/// 1024, its default (fio(1), "Parameter types", "kb_base"): refused, as everywhere else they are 1024.
fn size(key: &str, value: &str) -> Result<Bytes, String> {
    let lower = value.to_ascii_lowercase();
    let plain = lower.strip_suffix('b').unwrap_or(&lower);
    if let Some(power_of_ten) = plain.strip_suffix('i') {
        return Err(format!(
            "{key}={value}: fio takes such units as powers of 1000 (kb_base=1024, its default): write {key}={power_of_ten}, which \
             is a power of 1024 there and here, or the number of bytes"
        ));
    }
    plain.parse().map_err(|_| format!("{key}={value}: not a size such as 4k or 16m"))
}

/// A word that is true by being there, or says 0 or 1.
fn flag(key: &str, value: Option<&str>) -> Result<bool, String> {
    match value {
        None | Some("1") => Ok(true),
        Some("0") => Ok(false),
        Some(v) => Err(format!("{key}={v}: write {key}, {key}=1 or {key}=0")),
    }
}

fn number(key: &str, value: &str) -> Result<u32, String> {
    value
        .parse()
        .ok()
        .filter(|&n| n > 0 || key == "rwmixread")
        .ok_or_else(|| format!("{key}={value}: not a number of at least 1"))
}

/// fio's times: seconds unless a unit follows.
pub fn time(value: &str) -> Result<Nanos, String> {
    let at = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    let (digits, unit) = value.split_at(at);
    let ns: u64 = match unit.trim() {
        "us" => 1_000,
        "ms" => 1_000_000,
        "" | "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return Err(format!("{value}: not a time such as 10, 10s or 500ms")),
    };
    let n: u64 = digits.parse().map_err(|_| format!("{value}: not a time such as 10, 10s or 500ms"))?;
    n.checked_mul(ns).map(Nanos).ok_or_else(|| format!("{value}: too long"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_take_over_what_global_says() {
        let text = "; a comment\n[global]\nbs=16k\nsize=1g\nruntime=500ms\n[a]\nrw=randread\niodepth=32\n\n[b]\nrw=randrw\nrwmixread=70\nnumjobs=2\nnorandommap\ntime_based=1\noffset=1m\n";
        let jobs = parse("f", text).expect("good");
        assert_eq!(jobs.len(), 2);
        let (a, b) = (&jobs[0], &jobs[1]);
        assert_eq!(
            (a.name.as_str(), a.block_size, a.depth, a.size),
            ("a", Bytes::kib(16), 32, Some(Bytes::gib(1)))
        );
        assert_eq!((a.random_map, a.runtime), (true, Some(Nanos::from_millis(500))));
        assert_eq!((a.time_based, b.time_based), (false, true));
        assert_eq!((b.read_percent, b.clients, b.random_map, b.offset), (70, 2, false, Bytes::mib(1)));
    }

    #[test]
    fn errors_name_the_line_and_what_would_be_right() {
        let why = |text: &str| parse("f.fio", text).expect_err("bad").to_string();
        assert!(
            why("[a]\nrw=read\nioengine=libaio\n").starts_with("f.fio, line 3: 'ioengine' is not supported")
        );
        assert!(why("[a]\nrw=reed\n").contains("line 2: rw=reed: there are read, write"));
        assert!(why("bs=4k\n").contains("line 1: 'bs' stands before the first section"));
        assert!(why("[a]\nbs=four\n").contains("not a size"));
        assert!(
            why("[a]\nbs=4KiB\n").contains("line 2: bs=4KiB: fio takes")
                && why("[a]\nsize=1Gi\n").contains("write size=1g")
        );
        assert!(why("[a\n").contains("no section"));
        assert!(why("[global]\nbs=4k\n").contains("there is no job"));
        assert!(why("[a]\niodepth=0\n").contains("line 2"));
        assert!(why("[a]\nsize\n").contains("needs a value"));
        assert!(why("[a]\nnorandommap=false\n").contains("line 2: norandommap=false: write norandommap"));
    }

    /// What only shows when a job is put together, or put on a drive, is said with the line all the same.
    #[test]
    fn a_job_that_cannot_run_is_refused_with_the_line_at_fault() {
        let why = |text: &str| {
            let jobs = parse("f", text).expect("each line is good");
            jobs[0].check(1 << 30).expect_err("refused").to_string()
        };
        let said = why("[a]\nrw=read\nblocksize=3k\n");
        assert!(said.starts_with("f, line 3: job a: block commands move whole 4 KiB pages"), "{said}");
        let said = why("[global]\noffset=1k\nbs=4k\n[a]\nrw=read\n");
        assert!(said.starts_with("f, line 2: job a: "), "{said}");
        let said = why("[global]\nbs=4k\n\n[a]\ntime_based\nrw=read\n");
        assert!(said.starts_with("f, line 5: job a: time_based needs a runtime"), "{said}");
        let said = why("[a]\nsize=1m\noffset=1g\nbs=4k\n");
        assert!(said.starts_with("f, line 4: job a: offset 1GiB and size 1MiB do not fit"), "{said}");
    }
}
