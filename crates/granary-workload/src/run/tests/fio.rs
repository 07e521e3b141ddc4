//! Jobs of fio job files on a small file system in memory.

use super::super::Finish;
use super::*;

fn run_fio(text: &str) -> Result<(Outcome, MemFs), RunError> {
    run_on(text, MemFs::new(LATENCY))
}

fn run_on(text: &str, fs: MemFs) -> Result<(Outcome, MemFs), RunError> {
    let workload = Workload::from_fio("test.fio", text).unwrap_or_else(|error| panic!("{error}"));
    let mine = fs.clone();
    let body = move || {
        let mut run = Run::new(&workload, |name: &str| mine.client(name), RunOptions::default());
        run.setup()?;
        mine.state().log.clear();
        run.measure()
    };
    let outcome = World::default().run(body).expect("no deadlock")?;
    Ok((outcome, fs))
}

fn good(text: &str) -> (Outcome, MemFs) {
    run_fio(text).unwrap_or_else(|error| panic!("{error}"))
}

/// Calls of this name since the setup: file, bytes, place.
fn did(fs: &MemFs, call: &str) -> Vec<(u64, u64, u64)> {
    let log = fs.state().log.clone();
    let calls = log.iter().filter_map(|line| line.split_once(call).map(|(_, rest)| rest.to_owned()));
    calls
        .map(|rest| {
            let numbers: Vec<u64> = rest.split_whitespace().filter_map(|word| word.parse().ok()).collect();
            (numbers[0], numbers[1], numbers[2])
        })
        .collect()
}

#[test]
fn a_sequential_write_covers_the_file_once_in_order_and_syncs_as_often_as_is_said() {
    let (outcome, fs) = good("[a]\nrw=write\nbs=4k\nsize=64k\nfsync=4\n");
    let places: Vec<u64> = did(&fs, "write").into_iter().map(|(_, len, at)| at / len).collect();
    assert_eq!(places, (0..16).collect::<Vec<_>>());
    assert_eq!(
        (count(&outcome, "a.write"), count(&outcome, "a.fsync")),
        (16, 3),
        "none after the last one, as in fio"
    );
    assert_eq!((outcome.app_write, outcome.finished_because), (64 << 10, Finish::JobsDone));
}

#[test]
fn a_random_read_finds_content_and_visits_each_block_once() {
    let (outcome, fs) = good("[a]\nrw=randread\nbs=4k\nsize=256k\nnumjobs=2\n");
    for file in [0, 1] {
        let mut places: Vec<u64> =
            did(&fs, "read").into_iter().filter(|(f, ..)| *f == file).map(|(_, len, at)| at / len).collect();
        assert!(!places.is_sorted());
        places.sort_unstable();
        assert_eq!(places, (0..64).collect::<Vec<_>>());
    }
    assert_eq!(outcome.app_read, 512 << 10);
    assert_eq!(fs.state().files.keys().filter(|path| path.starts_with(b"/a.")).count(), 2);
}

#[test]
fn blocks_go_round_the_files_of_a_client() {
    let (_, fs) = good("[a]\nrw=write\nbs=4k\nsize=64k\nnrfiles=4\ndirectory=/d/e\n");
    let firsts: Vec<_> = did(&fs, "write").into_iter().take(5).map(|(file, _, at)| (file, at)).collect();
    assert_eq!(firsts, [(0, 0), (1, 0), (2, 0), (3, 0), (0, 4096)]);
    assert!(fs.state().data.iter().all(|file| file.len() == 16 << 10));
}

#[test]
fn unaligned_sizes_and_places_are_any_number_of_bytes() {
    let text = "[a]\nrw=randwrite\nbsrange=900-1100\nbs_unaligned\nblockalign=1\nsize=100k\nio_size=1m\nnumber_ios=300\noverwrite=1\n";
    let (_, fs) = good(text);
    let writes = did(&fs, "write");
    assert_eq!(writes.len(), 300);
    assert!(writes.iter().all(|(_, len, at)| (1..=1100).contains(len) && at + len <= 100 << 10));
    let odd = |f: fn(&(u64, u64, u64)) -> u64| writes.iter().filter(|w| f(w) % 2 == 1).count();
    assert!(odd(|w| w.1) > 100 && odd(|w| w.2) > 100, "drawn from all numbers");
    assert!(writes.iter().filter(|(_, len, _)| *len < 900).count() < 10, "only the file's end cuts them");
}

#[test]
fn what_another_job_has_overwritten_is_found() {
    let own = "[a]\nrw=randwrite\nfilename=f\nbs=3k\nsize=30k\nverify=crc32c\n";
    let (_, fs) = good(own);
    assert!(!did(&fs, "read").is_empty(), "it read back what it wrote");
    let again = format!("{own}[b]\nstonewall\nrw=randread\nfilename=f\nbs=3k\nsize=30k\nverify=crc32c\n");
    good(&again);
    let other = "[b]\nstonewall\nrw=write\nfilename=f\nbs=3k\nsize=3k\n[c]\nstonewall\nrw=read\nfilename=f\nsize=30k\nverify=1\n";
    let error = run_fio(&format!("{own}{other}")).map(drop).expect_err("it is found").to_string();
    assert_eq!(error, "job `c`: /f has not what was written there at byte 0");
}

/// fio reads nothing again with `do_verify=0`; else what it reads is told apart, and is none of the job's
/// time.
#[test]
fn a_verification_has_a_row_of_its_own_and_no_part_in_the_rate() {
    let job = |more: &str| format!("[a]\nrw=randwrite\nbs=4k\nsize=400k\n{more}");
    let (plain, _) = good(&job(""));
    let (off, fs) = good(&job("verify=crc32c\ndo_verify=0\n"));
    assert!(did(&fs, "read").is_empty() && count(&off, "a.write") == 100);
    let (on, _) = good(&job("verify=crc32c\n"));
    assert_eq!((count(&on, "a.write"), count(&on, "a.verify"), on.total_ops), (100, 100, 100));
    assert_eq!((on.elapsed, off.elapsed), (plain.elapsed, plain.elapsed));
    assert!(!on.ops["a.verify"].counted);
}

#[test]
fn time_ends_a_job_whose_blocks_come_round_again() {
    let (outcome, _) = good("[a]\nrw=randread\nbs=4k\nsize=40k\ntime_based\nruntime=1\nramp_time=1\n");
    assert_eq!(outcome.finished_because, Finish::Time);
    // Two seconds of calls of 10 us, of which the second counts.
    let n = count(&outcome, "a.read");
    assert!((99_000..=100_001).contains(&n), "{n}");
    assert_eq!(outcome.elapsed.0 / 1_000_000_000, 1);
}

#[test]
fn an_engine_that_queues_keeps_its_depth_under_way() {
    let time = |text: &str| good(text).0.elapsed.0;
    let one = time("[a]\nrw=randread\nioengine=libaio\nsize=400k\n");
    let four = time("[a]\nrw=randread\nioengine=libaio\niodepth=4\nsize=400k\n");
    assert!((3.0..4.2).contains(&(one as f64 / four as f64)), "{one} {four}");
    // psync has one.
    assert_eq!(time("[a]\nrw=randread\nioengine=psync\niodepth=4\nsize=400k\n"), one);
}

/// The others wait for the flush that fails.
#[test]
fn an_error_ends_a_job_that_has_several_accesses_under_way() {
    let fs = MemFs::new(LATENCY);
    fs.state().fail = Some(("fsync", 2, granary_fs::FsError::NoSpace));
    let text = "[a]\nrw=write\nioengine=libaio\niodepth=4\nsize=400k\nfsync=3\n";
    let error = run_on(text, fs).map(drop).expect_err("it fails");
    assert!(error.is_no_space() && error.to_string().contains("job `a` failed: fsync /a.0.0"), "{error}");
}

#[test]
fn what_there_is_not_on_files_is_refused_with_its_line() {
    let said = |text: &str| Workload::from_fio("f.fio", text).expect_err("refused").to_string();
    for (text, wanted) in [
        ("[a]\nrw=randload\nsize=1m\n", "f.fio, line 2"),
        ("[a]\nrw=read\n", "f.fio, line 1: job a: how large are the files? give size=..."),
        ("[a]\nsize=1k\n", "leave no room for an access of 4KiB"),
        ("[a]\nsize=1m\nioengine=mmap\n", "use psync"),
        ("[a]\nsize=1m\nfile_service_type=zipf\n", "f.fio, line 3: file_service_type=zipf: not supported"),
        ("[a]\nsize=1m\nsync=maybe\n", "there are none, sync and dsync"),
        ("[a]\nsize=1m\noffset=18446744073709551615\n", "at most 1 PiB"),
        ("[a]\nfilesize=9223372036854775808\nsize=99%\nnrfiles=1000\n", "at most 1 PiB"),
        ("[a]\nsize=8g\nbs=2g\nverify=crc32c\n", "at most 1 GiB"),
        ("[a]\nsize=50%\n", "a part of what? give filesize"),
        ("[a]\nsize=1m\ndirect=1\nbs=1000\n", "whole sectors"),
    ] {
        let said = said(text);
        assert!(said.contains(wanted), "{said}");
    }
}

#[test]
fn a_job_that_opens_a_file_lets_go_of_its_pages_unless_told_otherwise() {
    let jobs = "[a]\nrw=write\nsize=16k\n[b]\nstonewall\nrw=read\nsize=16k\n";
    for (said, jobs_that_do) in [("", 2), ("invalidate=1\n", 2), ("invalidate=0\n", 0)] {
        let (_, fs) = good(&format!("[global]\nfilename=f\n{said}{jobs}"));
        assert_eq!(did(&fs, "let_go").len(), jobs_that_do, "{said}");
    }
}

#[test]
fn a_scaled_job_has_smaller_files_and_fewer_accesses() {
    let text = "[a]\nrw=randwrite\nbs=4k\nsize=1m\nnumber_ios=100\nnumjobs=3\n";
    let mut workload = Workload::from_fio("f.fio", text).expect("good");
    assert_eq!((workload.threads(), workload.expected_bytes()), (3, 3.0 * f64::from(1 << 20)));
    workload.scale(0.1).expect("a factor");
    let on = &workload.fio[0];
    assert_eq!((on.span, on.file_size, on.job.number_ios), (25 * 4096, 25 * 4096, Some(10)));
}
