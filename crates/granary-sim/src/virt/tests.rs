//! Properties of the virtual world, and the same programs on the wall clock.

use crate::sync::{Condvar, Mutex, RwLock};
use crate::{
    Daemon, Signal, Stop, World, WorldConfig, cpu, hold, now, power_fail, quiet_until, sleep, sleep_until,
    spawn,
};
use granary_units::Nanos;
use std::sync::Arc;

fn run<T: 'static>(f: impl FnOnce() -> T + 'static) -> T {
    World::default().run(f).expect("no deadlock")
}

/// Twelve tasks that count under a lock, hand over through a condvar and read under a reader-writer lock.
fn locking_program() -> (u64, u64) {
    let counter = Arc::new(Mutex::new(0u64));
    let turn = Arc::new((Mutex::new(0u64), Condvar::new()));
    let shared = Arc::new(RwLock::new(0u64));
    let tasks: Vec<_> = (0..12u64)
        .map(|id| {
            let (counter, turn, shared) = (counter.clone(), turn.clone(), shared.clone());
            spawn(&format!("worker {id}"), move || {
                for i in 0..100 {
                    let mut c = counter.lock();
                    let seen = *c;
                    sleep(Nanos(i % 7));
                    *c = seen + 1;
                    drop(c);
                    if i % 10 == 0 {
                        *shared.write() += 1;
                    }
                    assert!(*shared.read() <= 120);
                }
                let mut t = turn.0.lock();
                while *t != id {
                    turn.1.wait(&mut t);
                }
                *t += 1;
                turn.1.notify_all();
                *shared.read()
            })
        })
        .collect();
    let last = tasks.into_iter().map(|t| t.join()).max().expect("twelve tasks");
    let count = *counter.lock();
    (count, last)
}

#[test]
fn one_program_gives_one_result_in_both_worlds() {
    assert_eq!(run(locking_program), (1200, 120));
    assert_eq!(locking_program(), (1200, 120));
}

#[test]
fn nobody_else_runs_before_the_quiet_ends() {
    assert_eq!(quiet_until(), Nanos::ZERO, "on the wall clock nobody knows");
    let config = WorldConfig { power_fail_at: Some(Nanos(500)), ..WorldConfig::default() };
    let end = World::new(config).run(|| {
        let other = spawn("other", || sleep_until(Nanos(100)));
        assert_eq!(quiet_until(), now(), "it is ready");
        sleep(Nanos(1));
        assert_eq!(quiet_until(), Nanos(100));
        sleep_until(Nanos(99));
        assert_eq!(quiet_until(), Nanos(100));
        other.join();
        assert_eq!((now(), quiet_until()), (Nanos(100), Nanos(500)), "then the power fails");
        sleep_until(Nanos(500));
    });
    assert_eq!(end, Err(Stop::PowerFail(Nanos(500))));
}

/// Runs `tasks` tasks that each wait `waits` times for 100 ns, on `cores` cores; returns when the last one is
/// done.
fn waiting(cores: usize, tasks: u64, waits: u64, wait: fn()) -> Nanos {
    let config = WorldConfig { host_cores: cores, ..WorldConfig::default() };
    let all = move || {
        let each = move || (0..waits).for_each(|_| wait());
        let tasks: Vec<_> = (0..tasks).map(|_| spawn("waits", each)).collect();
        tasks.into_iter().for_each(|t| t.join());
        now()
    };
    World::new(config).run(all).expect("no deadlock")
}

fn load() {
    let begun = hold(|now| now, |&begun| begun + Nanos(100));
    assert_eq!(now(), begun + Nanos(100));
}

#[test]
fn a_core_that_waits_for_a_load_is_held_and_one_that_sleeps_is_not() {
    assert_eq!(waiting(1, 6, 10, load), Nanos(6_000));
    assert_eq!(waiting(4, 6, 10, load), Nanos(1_500));
    assert_eq!(waiting(28, 6, 10, load), Nanos(1_000));
    assert_eq!(waiting(1, 6, 10, || sleep(Nanos(100))), Nanos(1_000));
}

/// Work of a known length and held cores share the cores in the order in which they ask: no core does two
/// things, none idles while somebody waits, and nobody is passed over.
#[test]
fn held_cores_and_work_take_turns() {
    for cores in 1..5 {
        let config = WorldConfig { host_cores: cores, ..WorldConfig::default() };
        let (all, stats) = World::new(config).run_stats(move || {
            let spans = Arc::new(Mutex::new(Vec::new()));
            let tasks: Vec<_> = (0..9u64)
                .map(|id| {
                    let spans = spans.clone();
                    spawn(&format!("task {id}"), move || {
                        let mut random = crate::rng::Stream::new(id, "held");
                        for _ in 0..200 {
                            let len = Nanos(1 + random.below(50));
                            let asked = now();
                            if random.chance(0.5) {
                                cpu(len);
                            } else {
                                hold(|now| now, |&now| now + len);
                            }
                            spans.lock().push((asked, now() - len, now()));
                            sleep(Nanos(random.below(20)));
                        }
                    })
                })
                .collect();
            tasks.into_iter().for_each(|t| t.join());
            Arc::into_inner(spans).expect("all have ended").into_inner()
        });
        let all = all.expect("no deadlock");
        let at_once = |t: Nanos| all.iter().filter(|(_, start, end)| *start <= t && t < *end).count();
        for &(asked, start, _) in &all {
            assert!(start >= asked && at_once(start) <= cores, "{} at once on {cores} cores", at_once(start));
            if start > asked {
                assert_eq!(at_once(start - Nanos(1)), cores, "a core idles while a task waits");
            }
            let passed = all.iter().filter(|other| other.0 > asked && other.1 < start).count();
            assert_eq!(passed, 0, "who asked later goes first on {cores} cores");
        }
        assert_eq!(stats.cpu_busy, Nanos(all.iter().map(|(_, start, end)| (*end - *start).0).sum()));
    }
}

#[test]
fn time_is_exact_and_cores_are_shared() {
    let config = WorldConfig { host_cores: 2, ..WorldConfig::default() };
    let ends = World::new(config)
        .run(|| {
            let tasks: Vec<_> = (0..5)
                .map(|_| {
                    spawn("burn", || {
                        cpu(Nanos(100));
                        now()
                    })
                })
                .collect();
            tasks.into_iter().map(|t| t.join().0).collect::<Vec<_>>()
        })
        .expect("no deadlock");
    assert_eq!(ends, [100, 100, 200, 200, 300]);
}

#[test]
fn a_lock_goes_to_the_first_that_waits() {
    let order = run(|| {
        let lock = Arc::new(Mutex::new(Vec::new()));
        let held = lock.lock();
        let tasks: Vec<_> = (0..10u64)
            .map(|i| {
                let lock = lock.clone();
                spawn("waiter", move || {
                    sleep_until(Nanos(100 - i * 10));
                    lock.lock().push(i);
                })
            })
            .collect();
        sleep(Nanos(1000));
        drop(held);
        tasks.into_iter().for_each(|t| t.join());
        lock.lock().clone()
    });
    assert_eq!(order, [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]);
}

#[test]
fn readers_share_and_a_waiting_writer_is_not_overtaken() {
    let log = run(|| {
        let lock = Arc::new(RwLock::new(()));
        let log = Arc::new(Mutex::new(Vec::new()));
        let task = |name: &'static str, at: u64, write: bool| {
            let (lock, log) = (lock.clone(), log.clone());
            spawn(name, move || {
                sleep_until(Nanos(at));
                if write {
                    let _w = lock.write();
                    log.lock().push((name, now().0));
                    sleep(Nanos(100));
                } else {
                    let _r = lock.read();
                    log.lock().push((name, now().0));
                    sleep(Nanos(100));
                }
            })
        };
        for t in [task("r1", 0, false), task("r2", 10, false), task("w", 20, true), task("r3", 30, false)] {
            t.join();
        }
        log.lock().clone()
    });
    assert_eq!(log, [("r1", 0), ("r2", 10), ("w", 110), ("r3", 210)]);
}

#[test]
fn a_deadlock_names_who_waits_for_what() {
    let stop = World::default()
        .run(|| {
            let lock = Arc::new(Mutex::new(()));
            let cv = Arc::new(Condvar::new());
            let task = {
                let (lock, cv) = (lock.clone(), cv.clone());
                spawn("sleeper", move || cv.wait(&mut lock.lock()))
            };
            task.join();
        })
        .expect_err("nobody notifies");
    let Stop::Deadlock(d) = stop else { panic!("{stop:?}") };
    assert_eq!(d.waits.len(), 2);
    assert!(d.waits[1].starts_with("sleeper waits to be notified"), "{d}");
}

#[test]
fn a_cycle_of_locks_is_found_while_a_daemon_keeps_the_clock_going() {
    let caught = std::panic::catch_unwind(|| {
        run(|| {
            let _tick = Daemon::start("tick", |s| while s.pause(Nanos(5)) != Signal::Stop {});
            let (a, b) = (Arc::new(Mutex::new(())), Arc::new(Mutex::new(())));
            let (a2, b2) = (a.clone(), b.clone());
            let other = spawn("other", move || {
                let _b = b2.lock();
                sleep(Nanos(10));
                let _a = a2.lock();
            });
            let _a = a.lock();
            sleep(Nanos(20));
            let _b = b.lock();
            other.join();
        });
    });
    let message = *caught.expect_err("a deadlock").downcast::<String>().expect("a message");
    assert!(message.contains("main wants lock") && message.contains("held by other"), "{message}");
}

#[test]
fn power_failure_stops_every_task_and_frees_what_it_owns() {
    let owned = Arc::new(());
    let (mine, lock) = (owned.clone(), Arc::new(Mutex::new(0)));
    let seen = lock.clone();
    let stop = World::default().run(move || {
        for _ in 0..3 {
            let (mine, lock) = (mine.clone(), lock.clone());
            spawn("holder", move || {
                let _keep = mine;
                let mut g = lock.lock();
                *g += 1;
                sleep(Nanos(1_000_000));
                *g += 100;
            });
        }
        sleep(Nanos(500));
        power_fail();
    });
    assert_eq!(stop, Err(Stop::PowerFail(Nanos(500))));
    assert_eq!(*seen.lock(), 1, "the lock is free again and nobody ran on");
    assert_eq!(Arc::strong_count(&owned), 1);
}

#[test]
fn power_failure_can_be_set_for_an_instant() {
    let config = WorldConfig { power_fail_at: Some(Nanos(777)), ..WorldConfig::default() };
    let stop = World::new(config).run(|| {
        for _ in 0..100 {
            sleep(Nanos(10));
        }
    });
    assert_eq!(stop, Err(Stop::PowerFail(Nanos(777))));
}

#[test]
fn jitter_explores_schedules_and_each_seed_repeats() {
    let order = |seed| {
        let config = WorldConfig { jitter: Nanos(100), seed, ..WorldConfig::default() };
        World::new(config)
            .run(|| {
                let log = Arc::new(Mutex::new(Vec::new()));
                let tasks: Vec<_> = (0..6)
                    .map(|i| {
                        let log = log.clone();
                        spawn("task", move || log.lock().push(i))
                    })
                    .collect();
                tasks.into_iter().for_each(|t| t.join());
                log.lock().clone()
            })
            .expect("no deadlock")
    };
    let all: std::collections::BTreeSet<_> = (0..50).map(order).collect();
    assert!(all.len() > 25, "only {} different schedules", all.len());
    assert_eq!(order(3), order(3));
}

#[test]
fn a_daemon_is_kicked_and_stopped() {
    let program = || {
        let work = Arc::new(Mutex::new(Vec::new()));
        let log = work.clone();
        let daemon = Daemon::start("worker", move |s| {
            loop {
                let signal = s.pause(Nanos::from_millis(50));
                log.lock().push(signal);
                if signal == Signal::Stop {
                    return;
                }
            }
        });
        daemon.kick();
        while work.lock().len() < 2 {
            sleep(Nanos::from_millis(1));
            crate::yield_now();
        }
        daemon.stop();
        let seen = work.lock().clone();
        (seen[0], seen.last().copied())
    };
    let expected = (Signal::Kicked, Some(Signal::Stop));
    assert_eq!(run(program), expected);
    assert_eq!(program(), expected);
}

#[test]
fn a_panic_in_a_task_reaches_the_caller() {
    let caught = std::panic::catch_unwind(|| {
        run(|| {
            let t = spawn("bad", || panic!("boom"));
            sleep(Nanos(5));
            t.join()
        });
    });
    assert_eq!(caught.expect_err("a panic").downcast_ref::<&str>(), Some(&"boom"));
}

/// A system that has no memory for another stack ends the world with an error, wherever the task was started.
#[test]
fn a_task_without_a_stack_stops_the_world() {
    let huge = WorldConfig { stack: 1 << 60, ..WorldConfig::default() };
    let stopped = World::new(huge).run(|| ());
    assert!(matches!(stopped, Err(Stop::NoStack { task: 1, bytes, .. }) if bytes == 1 << 60), "{stopped:?}");
    // Linux's default allows 65,530 mappings, two for each stack; where more are allowed, all of them run.
    let tasks = 40_000;
    let small = WorldConfig { stack: 32 << 10, ..WorldConfig::default() };
    let all = World::new(small).run(move || {
        let started: Vec<_> = (0..tasks).map(|i| spawn("one", move || i)).collect();
        started.into_iter().map(crate::JoinHandle::join).sum::<u64>()
    });
    match all {
        Ok(sum) => assert_eq!(sum, tasks * (tasks - 1) / 2),
        Err(Stop::NoStack { task, .. }) => assert!(task > 1_000, "{task}"),
        Err(other) => panic!("{other}"),
    }
    assert_eq!(run(|| spawn("next", || 5).join()), 5);
}
