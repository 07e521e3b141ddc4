//! fio's job files on a drive alone: which of their options say nothing here, and which cannot be had.
//!
//! [`granary_trace::fio`] reads them. A drive has no files: what names or opens them is left out with a
//! warning, what would make several of them of one job is refused.

use crate::error::BenchError;
use crate::job::Job;
use granary_trace::fio::{Mistakes, parse};

/// Options of files that would change what is accessed, and the value that does not.
const SHAPING: &[(&str, &str)] = &[
    ("nrfiles", "1"),
    ("openfiles", "1"),
    ("filesize", ""),
    ("file_append", "0"),
    ("end_fsync", "0"),
    ("fsync_on_close", "0"),
    ("sync", "0"),
    ("sync", "none"),
    ("verify", "0"),
    ("verify", "none"),
];

/// The jobs of a file, and what to warn of.
///
/// # Errors
/// All that is wrong with it, with the lines.
pub fn jobs(file: &str, text: &str) -> Result<(Vec<Job>, Vec<String>), BenchError> {
    let read = parse(file, text).map_err(BenchError::BadJobFile)?;
    let (mut wrong, mut idle, mut warnings) = (Vec::new(), read.without_effect, Vec::new());
    for job in &read.jobs {
        for s in &job.other {
            let mut shaping = SHAPING.iter().filter(|(key, _)| *key == s.key).peekable();
            let shapes = shaping.peek().is_some() && shaping.all(|(_, harmless)| *harmless != s.value);
            let several = s.key == "filename" && s.value.contains(':');
            if shapes || several {
                let message =
                    format!("{}={}: there is one drive here and no files: remove it", s.key, s.value);
                let mistake = granary_trace::fio::Mistake { line: s.line, message };
                if !wrong.contains(&mistake) {
                    wrong.push(mistake);
                }
            } else if !idle.contains(&s.key) {
                idle.push(s.key.clone());
            }
        }
        if job.synchronous && job.depth > 1 {
            warnings.push(format!(
                "job {}: its engine has one access under way, as in fio, whatever its iodepth of {} says",
                job.name, job.depth
            ));
        }
    }
    if !wrong.is_empty() {
        return Err(BenchError::BadJobFile(Mistakes::new(file, wrong)));
    }
    if !idle.is_empty() {
        let (names, s) = (idle.join(", "), if idle.len() == 1 { "s" } else { "" });
        warnings.insert(0, format!("{file}: {names} change{s} no access of a drive and had no effect"));
    }
    Ok((read.jobs, warnings))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_without_effect_are_told_in_one_warning() {
        let text = "[global]\nioengine=libaio\ndirect=1\nfilename=/dev/nvme0n1\ngroup_reporting\n[a]\nrw=write\n[b]\nrw=read\n";
        let (jobs, warnings) = jobs("f.fio", text).expect("good");
        assert_eq!(jobs.len(), 2);
        assert_eq!(
            warnings,
            ["f.fio: group_reporting, direct, filename change no access of a drive and had no effect"]
        );
    }

    #[test]
    fn several_files_of_a_job_are_refused() {
        for line in
            ["filename=/dev/a:/dev/b", "nrfiles=4", "filesize=1g", "end_fsync=1", "verify=crc32c", "sync=1"]
        {
            let said =
                jobs("f.fio", &format!("[global]\n{line}\n[a]\n[b]\n")).expect_err("refused").to_string();
            assert_eq!(
                said,
                format!("f.fio, line 2: {line}: there is one drive here and no files: remove it")
            );
        }
        assert!(jobs("f.fio", "[a]\nnrfiles=1\n").is_ok());
    }

    #[test]
    fn an_engine_that_waits_is_told_of_where_a_depth_is_given() {
        let (jobs, warnings) = jobs("f", "[a]\nioengine=psync\niodepth=8\n").expect("good");
        assert_eq!(jobs[0].in_flight(), 1);
        assert!(warnings[0].contains("whatever its iodepth of 8 says"), "{warnings:?}");
    }
}
