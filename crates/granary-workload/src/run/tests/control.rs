use super::{count, one_process, run};
use granary_units::Nanos;

const FILES: &str = "size=1m,entries=10,dirwidth=100,prealloc=100";

fn threads(instances: u32, flowops: &str) -> String {
    format!("thread name=t,memsize=10m,instances={instances}\n{{\n{flowops}\n}}")
}

#[test]
fn eventlimit_holds_all_threads_together_to_the_rate() {
    let body = threads(4, "flowop statfile name=s,filesetname=set\nflowop eventlimit name=e");
    let (outcome, _) = run(&format!("eventgen rate=500\n{}", one_process(FILES, &body, "run 20")));
    let rate = count(&outcome, "s") as f64 / 20.0;
    assert!((490.0..=502.0).contains(&rate), "{rate} per second");
    assert_eq!(outcome.elapsed, Nanos::from_secs(20));
}

#[test]
fn opslimit_counts_the_operations_of_the_process_in_each_thread() {
    let rate = |instances| {
        let body =
            threads(instances, "flowop statfile name=s,filesetname=set,iters=5\nflowop opslimit name=e");
        let (outcome, _) = run(&format!("eventgen rate=1000\n{}", one_process(FILES, &body, "run 20")));
        outcome.total_ops as f64 / 20.0
    };
    assert!((970.0..=1_010.0).contains(&rate(1)), "{}", rate(1));
    assert!((240.0..=255.0).contains(&rate(4)), "{}", rate(4));
}

#[test]
fn a_target_limits_its_own_operations_only() {
    let body = threads(
        1,
        "flowop statfile name=s,filesetname=set,iters=3\n\
         flowop read name=r,filesetname=set,iosize=4k,random\n\
         flowop iopslimit name=e,target=r",
    );
    let (outcome, _) = run(&format!("eventgen rate=100\n{}", one_process(FILES, &body, "run 10")));
    let reads = count(&outcome, "r");
    assert!((970..=1_012).contains(&reads), "{reads} reads");
    assert!(count(&outcome, "s").abs_diff(3 * reads) <= 9);
}

#[test]
fn bwlimit_takes_one_event_per_mebibyte() {
    let body = threads(1, "flowop read name=r,filesetname=set,iosize=256k,random\nflowop bwlimit name=e");
    let (outcome, _) = run(&format!("eventgen rate=10\n{}", one_process(FILES, &body, "run 20")));
    let mib = outcome.app_read as f64 / f64::from(1 << 20) / 20.0;
    assert!((9.5..=10.3).contains(&mib), "{mib} MiB/s");
}

#[test]
fn without_a_rate_limits_let_everything_pass() {
    let body = threads(
        1,
        "flowop statfile name=s,filesetname=set\nflowop eventlimit name=e\nflowop opslimit name=o",
    );
    let (outcome, _) = run(&one_process(FILES, &body, "run 1"));
    assert_eq!(count(&outcome, "s"), 100_000, "10 us each");
    assert_eq!(count(&outcome, "e"), 0);
}

#[test]
fn hog_takes_processor_time_and_delay_only_time() {
    let body = threads(1, "flowop hog name=h,value=1000000\nflowop delay name=d,value=1");
    let (outcome, _) = run(&one_process(FILES, &body, "run 10"));
    // 1,000,000 stores of 370 ps.
    assert_eq!(outcome.ops["h"].latency.max().0 / 1000, 370);
    assert_eq!(count(&outcome, "d"), 9, "the tenth was cut short by the end");
    let delay = &outcome.ops["d"];
    assert_eq!(
        (delay.latency.mean(), delay.latency.max()),
        (Nanos::from_secs(1), Nanos::from_secs(1)),
        "exact"
    );
    assert_eq!(outcome.total_ops, 0, "neither is an operation");
    assert_eq!(outcome.elapsed, Nanos::from_secs(10));
}

#[test]
fn posts_from_many_processes_release_a_semblock() {
    let text = |post: &str| {
        format!(
            "define fileset name=set,path=/d,size=64k,entries=10,prealloc=100\n\
             define process name=writer,instances=2\n{{\nthread name=w,memsize=1m\n{{\n\
               flowop semblock name=gather,value=100,highwater=50\n\
               flowop write name=batch,filesetname=set,iosize=4k,random,iters=10\n}}\n}}\n\
             define process name=reader,instances=20\n{{\nthread name=r,memsize=1m\n{{\n\
               flowop read name=read,filesetname=set,iosize=4k,random\n\
               flowop sempost name=post,value=1,target=gather{post}\n}}\n}}\nrun 2\n"
        )
    };
    let (outcome, _) = run(&text(",blocking"));
    let (posts, blocks) = (count(&outcome, "post"), count(&outcome, "gather"));
    // Both writers get every post and take a hundred at a time.
    assert!((posts / 100 * 2).abs_diff(blocks) <= 4, "{posts} posts, {blocks} blocks");
    assert!(count(&outcome, "batch") >= 10 * (blocks - 2));
    // A reader waits while 50 posts beyond those waited for are pending, so readers run at the writers' pace.
    let (free, _) = run(&text(""));
    assert!(count(&free, "read") >= count(&outcome, "read"));
}

#[test]
fn wakeup_lets_blocked_threads_pass() {
    let text = one_process(
        FILES,
        "thread name=sleeper,memsize=1m,instances=3\n{\nflowop block name=gate\nflowop statfile name=s,filesetname=set\n}\n\
         thread name=waker,memsize=1m\n{\nflowop delay name=d,value=1\nflowop wakeup name=w,target=gate\n}",
        "run 10",
    );
    let (outcome, _) = run(&text);
    assert_eq!(count(&outcome, "s"), 27, "three threads, nine wake-ups");
    assert_eq!(count(&outcome, "gate"), 27);
}

/// Threads of equal names in equal processes: none draws what another one draws.
#[test]
fn definitions_of_one_name_have_numbers_of_their_own() {
    let write = "flowop write name=w,filesetname=set,iosize=4k,random";
    let process = |threads: &str| format!("define process name=p\n{{\n{threads}}}\n");
    let thread = format!("thread name=t,memsize=1m\n{{\n{write}\n}}\n");
    let text = format!(
        "define fileset name=set,path=/d,size=64m,entries=1,prealloc=100\n{0}{0}run 1\n",
        process(&thread.repeat(2))
    );
    let fs = super::MemFs::new(Nanos::from_millis(10));
    super::run_with(&text, 1, &fs).expect("runs");
    let log = &fs.state().log;
    let of = |name: &str| -> Vec<&str> {
        log.iter().filter_map(|line| line.strip_prefix(name)).filter(|call| call.contains("write")).collect()
    };
    let all = ["p-1/t-1", "p-1/t-2", "p-2/t-1", "p-2/t-2"].map(of);
    assert!(all.iter().all(|calls| calls.len() > 90), "all four are there");
    for i in 0..4 {
        assert!(all[..i].iter().all(|other| *other != all[i]), "{i} draws its own offsets");
    }
}

#[test]
fn prints_are_kept() {
    let body = threads(1, "flowop print name=say,value=\"hello\"\nflowop delay name=d,value=1");
    let (outcome, _) = run(&one_process(FILES, &body, "run 3"));
    assert_eq!(outcome.messages, ["hello"; 3]);
    let say = &outcome.ops["say"];
    assert_eq!(
        (say.latency.mean(), say.latency.max()),
        (Nanos::ZERO, Nanos::ZERO),
        "what takes no time has no latency"
    );
    let (outcome, _) = run(&one_process(FILES, &body, "run 150"));
    assert_eq!(outcome.messages.len(), 101);
    assert_eq!(outcome.messages[100], "(50 more lines)");
}

#[test]
fn the_periods_of_psrun_add_up_to_the_run() {
    let body = threads(2, "flowop read name=r,filesetname=set,iosize=4k,random\nflowop delay name=d,value=1");
    let (outcome, _) = run(&one_process(FILES, &body, "psrun -2 7"));
    let ends: Vec<u64> = outcome.periods.iter().map(|p| p.end.0 / 1_000_000_000).collect();
    assert_eq!(ends, [2, 4, 6, 7]);
    assert_eq!(outcome.periods.iter().map(|p| p.ops).sum::<u64>(), outcome.total_ops);
    assert_eq!(outcome.periods.iter().map(|p| p.read).sum::<u64>(), outcome.app_read);
    // Each thread opens its file and reads at 0 s, then reads once in a second.
    assert_eq!(outcome.periods.iter().map(|p| p.ops).collect::<Vec<_>>(), [6, 4, 4, 2]);
    assert!(outcome.warnings.is_empty(), "{:?}", outcome.warnings);
}

#[test]
fn a_run_that_ends_before_its_time_ends_its_periods() {
    let body = threads(2, "flowop deletefile name=x,filesetname=set\nflowop delay name=d,value=1");
    let (outcome, _) = run(&one_process(FILES, &body, "set mode quit alldone\npsrun 3 1000"));
    let last = outcome.periods.last().expect("there are periods");
    assert_eq!((outcome.periods.len(), last.end), (2, outcome.elapsed));
    assert_eq!(outcome.periods.iter().map(|p| p.ops).sum::<u64>(), 10);
}

#[test]
fn time_that_comes_before_another_end_is_told() {
    let body = threads(
        1,
        "flowop statfile name=s,filesetname=set\nflowop delay name=d,value=1\nflowop finishoncount name=f,value=9",
    );
    let (outcome, _) = run(&one_process(FILES, &body, "run 3"));
    assert_eq!(outcome.warnings, ["time ended the run before finishoncount `f` (line 8) did"]);
    let (outcome, _) = run(&one_process(FILES, &body, "run 30"));
    assert!(outcome.warnings.is_empty(), "{:?}", outcome.warnings);
}
