use super::{LATENCY, MemFs, count, one_process, one_thread, run, run_with};
use crate::run::content_word;
use crate::spec::FilesetId;
use granary_units::Nanos;

const FILES: &str = "size=10000,entries=10,dirwidth=100,prealloc=100";
const EMPTY: &str = "size=10000,entries=10,dirwidth=100";

/// One pass of these flowops.
fn once(fileset: &str, flowops: &str) -> (super::Outcome, MemFs) {
    run(&one_thread(fileset, &format!("{flowops}\nflowop finishoncount name=end,value=1"), 100))
}

#[test]
fn createfile_makes_a_file_that_does_not_exist() {
    let (outcome, fs) =
        once(EMPTY, "flowop createfile name=c,filesetname=set,fd=1\nflowop closefile name=x,fd=1");
    assert_eq!(fs.state().files.len(), 1);
    assert_eq!(outcome.total_ops, 2);
    assert_eq!(count(&outcome, "c"), 1);
    assert_eq!((outcome.app_read, outcome.app_write), (0, 0));
}

#[test]
fn writewholefile_writes_the_size_of_the_file_in_pieces_and_readwholefile_reads_it() {
    let (outcome, fs) = once(
        EMPTY,
        "flowop createfile name=c,filesetname=set,fd=1\n\
         flowop writewholefile name=w,fd=1,iosize=4k\n\
         flowop readwholefile name=r,fd=1,iosize=3000",
    );
    let state = fs.state();
    let content = &state.data[0];
    assert_eq!(content.len(), 10_000);
    let word = content_word(FilesetId(0), 0).to_le_bytes();
    assert!(content.iter().enumerate().all(|(i, &byte)| byte == word[i % 8]));
    assert_eq!((outcome.app_write, outcome.app_read), (10_000, 10_000));
    assert_eq!(state.calls["write"], 3);
    assert_eq!(state.calls["read"], 5, "four pieces, and the end of the file");
    assert_eq!(outcome.total_ops, 3);
}

#[test]
fn srcfd_gives_the_length_of_another_file() {
    let text = "define fileset name=big,path=/d,size=9000,entries=1,prealloc=100\n\
                define fileset name=small,path=/d,size=100,entries=1\n\
                define process name=p\n{\nthread name=t,memsize=1m\n{\n\
                flowop openfile name=o,filesetname=big,fd=1\n\
                flowop closefile name=x,fd=1\n\
                flowop createfile name=c,filesetname=small,fd=2\n\
                flowop writewholefile name=w,fd=2,srcfd=1,iosize=1m\n\
                flowop finishoncount name=end,value=1\n}\n}\nrun 10\n";
    let (outcome, _) = run(text);
    assert_eq!(outcome.app_write, 9000);
}

#[test]
fn appends_continue_the_file_with_its_word() {
    let (outcome, fs) = once(
        FILES,
        "flowop openfile name=o,filesetname=set,fd=1\n\
         flowop appendfile name=a,iosize=1001,fd=1\n\
         flowop appendfilerand name=b,iosize=5000,fd=1,iters=50",
    );
    let state = fs.state();
    let content = state.data.iter().find(|data| data.len() != 10_000).expect("one file grew");
    assert_eq!(content.len() as u64, 10_000 + outcome.app_write);
    let (word, _) = content.split_at(8);
    assert!(content.iter().enumerate().all(|(i, &byte)| byte == word[i % 8]));
    let random = &outcome.ops["b"];
    assert_eq!(random.count, 50);
    let mean = random.bytes / 50;
    assert!((1_700..3_300).contains(&mean), "mean append of {mean} bytes");
}

#[test]
fn random_offsets_are_multiples_of_the_io_size_within_the_working_set() {
    let (outcome, fs) = once(
        "size=1m,entries=1,prealloc=100",
        "flowop read name=r,filesetname=set,iosize=4k,workingset=64k,random,iters=300\n\
         flowop write name=w,filesetname=set,iosize=8k,random,iters=300",
    );
    let state = fs.state();
    let offsets = |call: &str, size: u64| -> Vec<u64> {
        let wanted = format!(" {call} 0 {size} at ");
        state
            .log
            .iter()
            .filter_map(|line| line.split_once(&wanted))
            .map(|(_, at)| at.parse().expect("offset"))
            .collect()
    };
    let (reads, writes) = (offsets("read", 4096), offsets("write", 8192));
    assert_eq!((reads.len(), writes.len()), (300, 300));
    assert!(reads.iter().all(|at| at % 4096 == 0 && at + 4096 <= 65_536));
    assert!(writes.iter().all(|at| at % 8192 == 0 && at + 8192 <= 1 << 20));
    assert!(writes.iter().any(|&at| at > 900_000), "the whole file is used");
    assert_eq!(count(&outcome, "r"), 301, "the implicit open counts, as in Filebench");
    assert_eq!(count(&outcome, "w"), 300, "and leaves the file open on fd 0");
}

#[test]
fn a_sequential_read_starts_again_after_the_end() {
    let (outcome, _) = once(FILES, "flowop read name=r,filesetname=set,iosize=4000,iters=8");
    // 4000 + 4000 + 2000 + 0, twice.
    assert_eq!(outcome.app_read, 20_000);
}

#[test]
fn deletefile_removes_files_until_none_is_left() {
    let text = one_process(
        FILES,
        "thread name=t,memsize=1m,instances=3\n{\nflowop deletefile name=d,filesetname=set\n}",
        "set mode quit alldone\nrun",
    );
    let (outcome, fs) = run(&text);
    assert_eq!(fs.state().files.len(), 0);
    assert_eq!(outcome.total_ops, 10);
    assert_eq!(outcome.finished_because.to_string(), "nothing left for `d` in the last thread");
}

#[test]
fn deletefile_spares_what_another_thread_has_open() {
    let text = one_process(
        FILES,
        "thread name=holder,memsize=1m\n{\n\
           flowop openfile name=o,filesetname=set,fd=1\nflowop delay name=wait,value=5\nflowop closefile name=x,fd=1\n}\n\
         thread name=t,memsize=1m\n{\nflowop deletefile name=d,filesetname=set\n}",
        "run 2",
    );
    let (outcome, fs) = run(&text);
    assert_eq!(fs.state().files.len(), 1, "all but the open one");
    assert_eq!(count(&outcome, "d"), 9);
}

#[test]
fn deletefile_with_an_fd_removes_the_file_that_was_open_there() {
    let (_, fs) = once(
        FILES,
        "flowop openfile name=o,filesetname=set,fd=1\n\
         flowop closefile name=x,fd=1\n\
         flowop deletefile name=d,filesetname=set,fd=1",
    );
    let state = fs.state();
    let opened = state.log.iter().rfind(|l| l.starts_with("p-1/t-1 open")).expect("it opened one");
    let unlinked = state.log.iter().find(|l| l.contains(" unlink ")).expect("it deleted one");
    assert_eq!(opened.split(' ').nth(2), unlinked.split(' ').nth(2));
}

#[test]
fn statfile_looks_at_the_open_file_or_any_other() {
    let (outcome, fs) = once(
        FILES,
        "flowop statfile name=any,filesetname=set\n\
         flowop openfile name=o,filesetname=set,fd=1\n\
         flowop statfile name=mine,fd=1",
    );
    assert_eq!(fs.count("fstat"), 1);
    assert_eq!(outcome.total_ops, 3);
}

#[test]
fn fsync_and_fsyncset_sync_what_is_open() {
    let (outcome, fs) = once(
        FILES,
        "flowop openfile name=a,filesetname=set,fd=1\n\
         flowop openfile name=b,filesetname=set,fd=2\n\
         flowop fsync name=one,fd=1\n\
         flowop fsyncset name=all,filesetname=set",
    );
    assert_eq!(fs.count("fsync"), 3);
    assert_eq!(count(&outcome, "all"), 2, "each file counts");
}

#[test]
fn directories_are_made_listed_and_removed() {
    let (outcome, fs) = once(
        "size=0,entries=0,leafdirs=20,dirwidth=100",
        "flowop makedir name=m,filesetname=set,iters=5\n\
         flowop listdir name=l,filesetname=set,iters=4\n\
         flowop removedir name=r,filesetname=set,iters=2",
    );
    assert_eq!((fs.count("rmdir"), outcome.total_ops), (2, 11));
    assert!(outcome.ops["l"].bytes > 4 * 2 * 279, "\".\" and \"..\" at least");
    assert_eq!(outcome.app_read, 0);
}

#[test]
fn opennext_opens_a_file_per_slot_once_and_each_thread_starts_at_the_first() {
    let text = one_process(
        "size=64k,entries=4,prealloc=100",
        "thread name=t,memsize=1m,instances=2\n{\n\
         flowop read name=r,filesetname=set,iosize=2k,random,opennext\n\
         flowop finishoncount name=end,value=40\n}",
        "run 10",
    );
    let (_, fs) = run(&text);
    let state = fs.state();
    for thread in ["p-1/t-1", "p-1/t-2"] {
        let opens: Vec<&str> = state
            .log
            .iter()
            .filter(|l| l.starts_with(&format!("{thread} open ")))
            .map(|l| l.split(' ').nth(2).expect("path"))
            .collect();
        assert_eq!(opens.len(), 4, "each slot once: {opens:?}");
        // The first thread finds nothing busy. The second, in step with it, passes over what the first is
        // opening.
        assert!(thread.ends_with("t-2") || opens.is_sorted_by(|a, b| a < b), "{opens:?}");
    }
}

#[test]
fn indexed_picks_from_that_place() {
    let (_, fs) = once(
        "size=100,entries=100,dirwidth=1000,dirgamma=0,prealloc=100",
        "flowop openfile name=o,filesetname=set,fd=1,indexed=1",
    );
    let state = fs.state();
    let opened = state.log.iter().rfind(|l| l.starts_with("p-1/t-1 open")).expect("it opened one");
    assert!(opened.contains("/00000051 "), "entry 1 * 100 / 2 is number 50: {opened}");
}

#[test]
fn open_flags_follow_the_flowop_and_the_fileset() {
    let flags = |set: &str, flowop: &str| {
        let (_, fs) =
            once(&format!("{FILES}{set}"), &format!("flowop openfile name=o,filesetname=set,fd=1{flowop}"));
        let state = fs.state();
        let line = state.log.iter().rfind(|l| l.starts_with("p-1/t-1 open")).expect("it opened one").clone();
        u32::from_str_radix(line.rsplit(' ').next().expect("flags"), 8).expect("octal")
    };
    assert_eq!(flags("", ""), 0o2);
    assert_eq!(flags(",readonly", ""), 0);
    assert_eq!(flags(",writeonly", ""), 0o1);
    assert_eq!(flags("", ",dsync"), 0o4010002, "O_SYNC, as Filebench does");
    assert_eq!(flags("", ",directio"), 0o40002);
}

#[test]
fn asynchronous_writes_overlap_and_aiowait_waits_for_half() {
    let flowops = |wait: &str| {
        one_thread(
            "size=64k,entries=16,prealloc=100",
            &format!(
                "flowop aiowrite name=a,filesetname=set,iosize=2k,random,opennext,iters=16\n{wait}\n\
                 flowop finishoncount name=end,value=1"
            ),
            100,
        )
    };
    let wait = flowops("flowop aiowait name=w");
    let (outcome, fs) = run(&wait);
    assert_eq!(count(&outcome, "a"), 32, "16 opens and 16 writes");
    let done = fs.state().log.iter().filter(|l| l.contains("/aio-") && l.contains(" write ")).count();
    assert!(done >= 8, "{done} writes when the run ended");
    // Opens take 10 us each and the writes go on meanwhile; one after the other they would take 16 * 20 us
    // more.
    assert!(outcome.elapsed < Nanos::from_micros(16 * 10 + 40), "{}", outcome.elapsed);
}

/// 40 writers' worth of 10 ms each, started within one pass: the end finds most of them waiting.
#[test]
fn a_queued_write_is_no_byte_until_it_is_done_and_a_warning_if_it_never_is() {
    let fs = MemFs::new(Nanos::from_millis(10));
    let text = one_thread(
        "size=64k,entries=1,prealloc=100",
        "flowop aiowrite name=a,filesetname=set,iosize=2k,random,iters=100000",
        1,
    );
    let outcome = run_with(&text, 1, &fs).expect("runs");
    // The thread opens, then one writer opens and writes for the rest of the second.
    let done = outcome.app_write / 2048;
    assert!((97..=98).contains(&done), "{done} writes of 10 ms in a second");
    // An open, and as many writes as fit into the queue beside those that are done.
    assert_eq!(count(&outcome, "a"), 1 + 65_536 + done);
    let [warning] = &outcome.warnings[..] else { panic!("{:?}", outcome.warnings) };
    assert!(warning.contains("were dropped") && warning.contains(" of 65"), "{warning}");
}

#[test]
fn a_composite_flowop_repeats_its_inner_ones() {
    let text = format!(
        "define flowop name=pair\n{{\nflowop openfile name=o,filesetname=set,fd=1\nflowop closefile name=x,fd=1\n}}\n{}",
        one_thread(FILES, "flowop pair name=p1,iters=3\nflowop finishoncount name=end,value=1", 10)
    );
    let (outcome, _) = run(&text);
    assert_eq!(outcome.total_ops, 6);
}

#[test]
fn the_same_seed_gives_the_same_calls_at_the_same_instants() {
    let text = one_process(
        "size=$size,entries=300,dirwidth=20,prealloc=80",
        "thread name=t,memsize=10m,instances=7\n{\n\
         flowop deletefile name=d,filesetname=set\n\
         flowop createfile name=c,filesetname=set,fd=1\n\
         flowop appendfilerand name=a,iosize=16k,fd=1\n\
         flowop fsync name=f,fd=1\n\
         flowop closefile name=x,fd=1\n\
         flowop openfile name=o,filesetname=set,fd=1\n\
         flowop readwholefile name=r,fd=1,iosize=1m\n\
         flowop closefile name=y,fd=1\n\
         flowop finishoncount name=end,value=2000\n}",
        "set mode quit alldone\nrun",
    );
    let text = format!("set $size=cvar(type=cvar-gamma,parameters=mean:16384;gamma:1.5)\n{text}");
    let trace = |seed| {
        let fs = MemFs::new(LATENCY);
        let outcome = run_with(&text, seed, &fs).expect("runs");
        let log = std::mem::take(&mut fs.state().log);
        (log, outcome.elapsed, outcome.total_ops, outcome.app_write)
    };
    let first = trace(1);
    assert_eq!(first, trace(1));
    assert_ne!(first.0, trace(2).0);
}
