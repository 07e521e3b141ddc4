//! Runs in which every thread waits for another one. The clock of the world goes on: a daemon sees to it.

use super::{LATENCY, MemFs, count, one_process, workload};
use crate::run::{Finish, Outcome, Run, RunError, RunOptions};
use granary_sim::{Daemon, Signal, World};
use granary_units::Nanos;

const FILES: &str = "size=4k,entries=20,dirwidth=100,prealloc=100";
const STAT: &str = "flowop statfile name=s,filesetname=set";
/// No time limit.
const UNLIMITED: &str = "set mode quit alldone\nrun";

/// Runs beside a daemon that ticks each second, as a file system's write-back does.
fn run(text: &str) -> Result<Outcome, RunError> {
    let workload = workload(text);
    let body = move || {
        let ticking = Daemon::start("ticks", |stopper| {
            while stopper.pause(Nanos::from_secs(1)) != Signal::Stop {
                assert!(granary_sim::now() < Nanos::from_secs(2_000), "the run should have ended");
            }
        });
        let fs = MemFs::new(LATENCY);
        let mut run = Run::new(&workload, |name: &str| fs.client(name), RunOptions::default());
        let outcome = run.setup().and_then(|()| run.measure());
        ticking.stop();
        outcome
    };
    World::default().run(body).expect("no deadlock of the world")
}

fn thread(name: &str, flowops: &str) -> String {
    format!("thread name={name},memsize=1m\n{{\n{flowops}\n}}")
}

fn ends(value: u64) -> String {
    format!("flowop finishoncount name=end,value={value}")
}

#[test]
fn semaphores_that_nobody_posts_end_the_run_with_the_names_of_who_waits() {
    let body = [
        thread("a", &format!("{STAT}\nflowop semblock name=x,value=1\n{}", ends(1000))),
        thread("b", &format!("{STAT}\nflowop semblock name=y,value=1\n{}", ends(1000))),
    ];
    let text = one_process(FILES, &body.join("\n"), UNLIMITED);
    assert_eq!(
        run(&text).expect_err("all wait").to_string(),
        "threads wait and none is left to wake them: p-1/a-1 in semblock `x` (test.f:7) for a `sempost`; p-1/b-1 in \
         semblock `y` (test.f:13) for a `sempost`; let another thread post or wake them, or give `run` a number of seconds"
    );
}

#[test]
fn circles_of_semaphores_and_blocks_are_found() {
    for (first, second, named) in [
        // Each posts what the other waits for, after it was posted itself.
        (
            "flowop semblock name=x,value=1\nflowop sempost name=to-y,value=1,target=y",
            "flowop semblock name=y,value=1\nflowop sempost name=to-x,value=1,target=x",
            "semblock `x`",
        ),
        // A wake-up before anybody is blocked is lost.
        (
            "flowop block name=x\nflowop wakeup name=to-y,target=y",
            "flowop wakeup name=to-x,target=x\nflowop delay name=d,value=1\nflowop block name=y",
            "block `y` (test.f:16) for a `wakeup`",
        ),
        // Nobody takes what was posted.
        (
            "flowop sempost name=to-y,value=2,target=y,blocking",
            "flowop block name=z\nflowop semblock name=y,value=1",
            "sempost `to-y` (test.f:7) for its `semblock`",
        ),
    ] {
        let body = [
            thread("a", &format!("{STAT}\n{first}\n{}", ends(1000))),
            thread("b", &format!("{STAT}\n{second}\n{}", ends(1000))),
        ];
        let message =
            run(&one_process(FILES, &body.join("\n"), UNLIMITED)).expect_err("all wait").to_string();
        assert!(message.starts_with("threads wait") && message.contains(named), "{message}");
    }
}

#[test]
fn the_end_of_the_only_thread_that_could_post_is_a_standstill_of_the_others() {
    let body = [
        thread("deletes", "flowop deletefile name=d,filesetname=set\nflowop sempost name=p,value=1,target=x"),
        thread("waits", "flowop semblock name=x,value=1").replace("memsize", "instances=12,memsize"),
    ];
    let message = run(&one_process(FILES, &body.join("\n"), UNLIMITED)).expect_err("12 wait").to_string();
    assert!(message.contains("p-1/waits-8 and 4 more in semblock `x` (test.f:11)"), "{message}");
}

#[test]
fn a_run_with_a_time_limit_sleeps_to_its_end_and_a_warning_tells() {
    let body = [
        thread("a", &format!("{STAT}\nflowop block name=x")),
        thread("b", &format!("{STAT}\nflowop block name=y")),
    ];
    let outcome = run(&one_process(FILES, &body.join("\n"), "run 5")).expect("time ends it");
    assert_eq!((outcome.finished_because, outcome.elapsed), (Finish::Time, Nanos::from_secs(5)));
    assert_eq!(outcome.total_ops, 2);
    let [warning] = &outcome.warnings[..] else { panic!("{:?}", outcome.warnings) };
    assert!(warning.starts_with("from 0.000 s after the start threads waited"), "{warning}");
    assert!(warning.contains("p-1/a-1 in block `x` (test.f:7) for a `wakeup`"), "{warning}");
}

#[test]
fn patience_at_its_end_is_told() {
    let body = [
        thread("a", &format!("{STAT}\nflowop semblock name=x,value=1")),
        thread("b", "flowop delay name=d,value=700"),
    ];
    let outcome = run(&one_process(FILES, &body.join("\n"), "run 1300")).expect("time ends it");
    let [_, warning] = &outcome.warnings[..] else { panic!("{:?}", outcome.warnings) };
    assert!(warning.starts_with("waits for semaphores were given up after 600 s (2 times"), "{warning}");
}

/// Threads that hand each other on wait nearly all the time, but never all of them.
#[test]
fn threads_that_wake_each_other_run_to_their_end() {
    let rounds = 500;
    let body = [
        thread(
            "a",
            &format!("{STAT}\nflowop sempost name=to-y,value=1,target=y\nflowop semblock name=x,value=1"),
        ),
        thread(
            "b",
            &format!(
                "flowop semblock name=y,value=1\nflowop sempost name=to-x,value=1,target=x,blocking\nflowop wakeup \
                 name=w,target=gate\n{}",
                ends(rounds)
            ),
        ),
        thread("c", "flowop block name=gate"),
    ];
    let outcome = run(&one_process(FILES, &body.join("\n"), UNLIMITED)).expect("comes to its end");
    assert_eq!(outcome.finished_because, Finish::Count("end".into()));
    assert_eq!(count(&outcome, "s"), rounds);
    assert!(outcome.warnings.is_empty(), "{:?}", outcome.warnings);
}

/// A thread that goes on for ever, and can wake nobody and end nothing, does not hide that the others wait
/// for ever.
#[test]
fn a_thread_that_can_change_nothing_is_no_hope() {
    let waits = thread("a", &format!("flowop block name=x\n{}", ends(10)));
    let idle = thread("b", &format!("{STAT}\nflowop delay name=d,value=1"));
    let text = |end: &str| one_process(FILES, &[waits.as_str(), idle.as_str()].join("\n"), end);
    let message = run(&text(UNLIMITED)).expect_err("nothing would end it").to_string();
    assert!(message.contains("p-1/a-1 in block `x` (test.f:6)") && !message.contains("p-1/b-1"), "{message}");
    let outcome = run(&text("run 3")).expect("time ends it");
    assert_eq!(count(&outcome, "s"), 3);
    assert!(outcome.warnings.iter().any(|w| w.starts_with("from 0.000 s")), "{:?}", outcome.warnings);
    // One that will wake it is.
    let wakes = idle.replace("flowop delay", "flowop wakeup name=w,target=x\nflowop delay");
    let outcome = run(&one_process(FILES, &[waits, wakes].join("\n"), UNLIMITED)).expect("comes to its end");
    assert_eq!(outcome.finished_because, Finish::Count("end".into()));
}
