//! The scheduler of a virtual world: tasks, the event queue, switching, the end.
#![allow(unsafe_code)] // coroutine stacks: a task's yielder and the current scheduler are reached by pointer

mod cpus;

use super::cpu::CpuSet;
use super::park::{Mode, Parking, Waiter};
use super::queue::Queue;
use super::{Deadlock, Stop, WorldConfig, WorldStats};
use crate::cores::MOST_SETS;
use crate::cost::HostCosts;
use crate::rng::Stream;
use crate::sync::home::Alive;
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use granary_units::Nanos;
use std::cell::{Cell, OnceCell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

type Body = Box<dyn FnOnce() + 'static>;
type Co = Coroutine<(), (), (), DefaultStack>;

thread_local! {
    static CURRENT: Cell<*const Sched> = const { Cell::new(std::ptr::null()) };
    /// Stacks of ended tasks, for the next ones: worlds are started by the thousand in tests.
    static STACKS: RefCell<Vec<(usize, DefaultStack)>> = const { RefCell::new(Vec::new()) };
}

const MAX_POOLED_STACKS: usize = 256;
/// One in so many times a task is set aside where it may be. A choice: often enough that a test sees it many
/// times, seldom enough that two of them at once are not what it always sees.
const PREEMPTED: u64 = 4;

/// The virtual world that the caller is a task of, if any.
#[inline]
pub(crate) fn current<'a>() -> Option<&'a Sched> {
    let p = CURRENT.get();
    // SAFETY: CURRENT is set only by `Sched::run` to a Sched that lives in its frame, and cleared before that
    // frame ends; tasks, which are the only callers that see it non-null, run only inside that frame.
    if p.is_null() { None } else { Some(unsafe { &*p }) }
}

struct Task {
    name: Box<str>,
    co: RefCell<Option<Co>>,
    yielder: Cell<*const Yielder<(), ()>>,
    /// Counts the task's wake-ups: an event of an older generation is void.
    generation: Cell<u32>,
    /// The lock or condition that the task waits for; none for an instant.
    waits_for: Cell<Option<(usize, Mode)>>,
    daemon: bool,
    done: Cell<bool>,
    /// The set of processors that it is on.
    cpus: Cell<u32>,
}

/// The state of a running virtual world. All of it lives on one OS thread.
pub(crate) struct Sched {
    now: Cell<u64>,
    running: Cell<u32>,
    events: RefCell<Queue>,
    tasks: RefCell<Vec<Rc<Task>>>,
    parking: RefCell<Parking>,
    host: CpuSet,
    /// Other sets of processors.
    others: [OnceCell<CpuSet>; MOST_SETS - 1],
    /// The set that the running task is on: 0 is the host's.
    cpus: Cell<u32>,
    /// Its number, which no other world has had.
    world: Alive,
    jitter: Option<(u64, RefCell<Stream>)>,
    preempt: Option<(u64, RefCell<Stream>)>,
    power_fail_at: u64,
    stack: usize,
    /// The world has stopped: coroutines are being unwound.
    dying: Cell<bool>,
    /// Why it stops, where a task says so.
    stop: RefCell<Option<Stop>>,
    switches: Cell<u64>,
}

impl Sched {
    pub(super) fn run<T: 'static>(
        config: WorldConfig,
        main: impl FnOnce() -> T + 'static,
    ) -> (Result<T, Stop>, WorldStats) {
        assert!(CURRENT.get().is_null(), "a virtual world cannot run inside another");
        let explores = |below: Nanos, what| {
            (below.0 > 0).then(|| (below.0, RefCell::new(Stream::new(config.seed, what))))
        };
        let jitter = explores(config.jitter, "schedule jitter");
        let preempt = explores(config.preempt, "preemption");
        let sched = Sched {
            now: Cell::new(0),
            running: Cell::new(0),
            events: RefCell::default(),
            tasks: RefCell::default(),
            parking: RefCell::default(),
            host: CpuSet::new(config.host_cores, config.costs),
            others: Default::default(),
            cpus: Cell::new(0),
            world: Alive::new(),
            jitter,
            preempt,
            power_fail_at: config.power_fail_at.map_or(u64::MAX, |t| t.0),
            stack: config.stack,
            dying: Cell::new(false),
            stop: RefCell::default(),
            switches: Cell::new(0),
        };
        let result: Rc<Cell<Option<T>>> = Rc::default();
        let out = Rc::clone(&result);
        CURRENT.set(&sched);
        sched.spawn("main", false, Box::new(move || out.set(Some(main()))));
        let ended = catch_unwind(AssertUnwindSafe(|| sched.drive()));
        sched.unwind_all();
        CURRENT.set(std::ptr::null());
        let stats = WorldStats {
            switches: sched.switches.get(),
            end: Nanos(sched.now.get()),
            cpu_busy: sched.host.busy(),
        };
        match ended {
            Err(panic) => resume_unwind(panic),
            Ok(Err(stop)) => (Err(stop), stats),
            Ok(Ok(())) => (Ok(result.take().expect("the main task ended with a result")), stats),
        }
    }

    /// Runs tasks until the main task has ended.
    fn drive(&self) -> Result<(), Stop> {
        loop {
            if let Some(stop) = self.stop.take() {
                return Err(stop);
            }
            let next = self.events.borrow_mut().pop();
            let Some(event) = next else {
                return Err(Stop::Deadlock(self.deadlock()));
            };
            let task = Rc::clone(&self.tasks.borrow()[event.task as usize]);
            if task.done.get() || task.generation.get() != event.generation {
                continue;
            }
            if event.at >= self.power_fail_at {
                self.now.set(self.power_fail_at.max(self.now.get()));
                return Err(Stop::PowerFail(self.now()));
            }
            debug_assert!(event.at >= self.now.get());
            self.now.set(event.at);
            self.running.set(event.task);
            self.cpus.set(task.cpus.get());
            self.switches.set(self.switches.get() + 1);
            let mut co = task.co.borrow_mut();
            match co.as_mut().expect("a task that is not done has its coroutine").resume(()) {
                CoroutineResult::Yield(()) => {}
                CoroutineResult::Return(()) => {
                    task.done.set(true);
                    co.take().into_iter().for_each(|co| self.recycle(co));
                    if event.task == 0 {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Unwinds the tasks that have not ended, so that what they own is dropped.
    fn unwind_all(&self) {
        self.dying.set(true);
        let tasks = std::mem::take(&mut *self.tasks.borrow_mut());
        for (id, task) in tasks.iter().enumerate() {
            let co = task.co.borrow_mut().take();
            if let Some(mut co) = co {
                self.running.set(id as u32);
                if co.started() && !co.done() {
                    co.force_unwind();
                }
                self.recycle(co);
            }
        }
    }

    fn recycle(&self, co: Co) {
        if co.done() {
            let stack = co.into_stack();
            STACKS.with_borrow_mut(|pool| {
                if pool.len() < MAX_POOLED_STACKS {
                    pool.push((self.stack, stack));
                }
            });
        }
    }

    pub(crate) fn spawn(&self, name: &str, daemon: bool, body: Body) {
        let pooled = STACKS.with_borrow_mut(|p| p.pop_if(|(size, _)| *size == self.stack));
        let id = self.tasks.borrow().len() as u32;
        let stack = match pooled.map_or_else(|| DefaultStack::new(self.stack), |(_, stack)| Ok(stack)) {
            Ok(stack) => stack,
            Err(e) => {
                let stop = Stop::NoStack { task: id as usize + 1, bytes: self.stack, cause: e.to_string() };
                if id > 0 {
                    self.stop_with(stop);
                }
                // Nobody runs yet who could be suspended.
                self.stop.replace(Some(stop));
                return;
            }
        };
        let task = Rc::new(Task {
            name: name.into(),
            co: RefCell::new(None),
            yielder: Cell::new(std::ptr::null()),
            generation: Cell::new(0),
            waits_for: Cell::new(None),
            daemon,
            done: Cell::new(false),
            cpus: Cell::new(0),
        });
        let mine = Rc::downgrade(&task);
        let co = Coroutine::with_stack(stack, move |yielder: &Yielder<(), ()>, ()| {
            if let Some(task) = mine.upgrade() {
                task.yielder.set(yielder);
            }
            body();
        });
        *task.co.borrow_mut() = Some(co);
        self.tasks.borrow_mut().push(task);
        self.push(self.now.get(), id, 0);
    }

    fn push(&self, at: u64, task: u32, generation: u32) {
        self.events.borrow_mut().push(at, task, generation);
    }

    fn me(&self) -> Rc<Task> {
        Rc::clone(&self.tasks.borrow()[self.running.get() as usize])
    }

    /// Gives the thread back to the scheduler until an event of this task comes up.
    fn suspend(&self) {
        assert!(!self.dying.get(), "a destructor waits while the virtual world stops");
        let yielder = self.tasks.borrow()[self.running.get() as usize].yielder.get();
        // SAFETY: the pointer was set by this very coroutine when it started and points to its yielder, which
        // lives as long as the coroutine runs; we are on its stack now.
        unsafe { &*yielder }.suspend(());
    }

    /// Which world this is.
    #[inline]
    pub(crate) fn world(&self) -> u16 {
        self.world.0
    }

    #[inline]
    pub(crate) fn now(&self) -> Nanos {
        Nanos(self.now.get())
    }

    /// Nobody else runs, and the power stays on, before this instant, unless the caller makes somebody ready.
    #[inline]
    pub(crate) fn quiet_until(&self) -> Nanos {
        let first = self.events.borrow().first().unwrap_or(u64::MAX);
        Nanos(first.min(self.power_fail_at))
    }

    pub(crate) fn sleep_until(&self, t: Nanos) {
        let t = t.0;
        if t <= self.now.get() {
            return;
        }
        // Nobody else runs before `t`: go there without a switch.
        if t < self.quiet_until().0 {
            self.now.set(t);
            return;
        }
        self.run_again(t);
    }

    pub(crate) fn yield_now(&self) {
        self.run_again(self.now.get());
    }

    /// Lets others run until the caller's turn comes at `t`.
    pub(super) fn run_again(&self, t: u64) {
        let me = self.running.get();
        let generation = self.tasks.borrow()[me as usize].generation.get();
        self.events.borrow_mut().push_own(t, me, generation);
        self.suspend();
    }

    pub(crate) fn costs(&self) -> &HostCosts {
        &self.cpu_set().costs
    }

    #[inline]
    pub(crate) fn task_id(&self) -> u32 {
        self.running.get()
    }

    pub(crate) fn task_name(&self) -> String {
        self.me().name.to_string()
    }

    pub(crate) fn power_fail(&self) -> ! {
        self.stop_with(Stop::PowerFail(self.now()))
    }

    /// Stops the world from within a task.
    fn stop_with(&self, stop: Stop) -> ! {
        self.stop.replace(Some(stop));
        self.suspend();
        unreachable!("a task ran on after the world stopped")
    }

    /// Exploration: a random wait before a lock is taken.
    #[inline]
    pub(crate) fn jitter(&self) {
        if let Some((below, stream)) = &self.jitter
            && !self.dying.get()
        {
            let wait = stream.borrow_mut().below(*below);
            self.sleep_until(Nanos(self.now.get() + wait));
        }
    }

    /// Exploration: now and then a random wait before a device is asked.
    #[inline]
    pub(crate) fn preempt(&self) {
        if let Some((below, stream)) = &self.preempt
            && !self.dying.get()
        {
            let wait = {
                let mut stream = stream.borrow_mut();
                if stream.below(PREEMPTED) == 0 { stream.below(*below) } else { 0 }
            };
            self.sleep_until(Nanos(self.now.get() + wait));
        }
    }

    #[inline]
    pub(crate) fn is_dying(&self) -> bool {
        self.dying.get()
    }

    /// Waits in the queue of `key`, a lock that `holder` holds now ([`super::NOBODY`]: readers, or no lock),
    /// until [`Sched::unpark`] takes the task out. Returns false where `deadline` passed first (the task is
    /// then out of the queue).
    pub(crate) fn park(&self, key: usize, holder: u32, mode: Mode, deadline: Option<Nanos>) -> bool {
        let task = self.me();
        let me = self.running.get();
        let generation = task.generation.get();
        self.parking.borrow_mut().push(key, holder, Waiter { task: me, mode });
        task.waits_for.set(Some((key, mode)));
        if let Some(t) = deadline {
            self.push(t.0.max(self.now.get()), me, generation);
        }
        self.suspend();
        task.waits_for.set(None);
        let woken = task.generation.get() != generation;
        if !woken {
            self.parking.borrow_mut().remove(key, me);
        }
        woken
    }

    /// Takes the first waiter of `key` out if `take` agrees and makes it ready now. Returns it, and whether
    /// others still wait.
    pub(crate) fn unpark(&self, key: usize, take: impl FnOnce(Waiter) -> bool) -> Option<(Waiter, bool)> {
        let (waiter, more) = self.parking.borrow_mut().pop_if(key, take)?;
        let tasks = self.tasks.borrow();
        // While the world is being taken down there is nobody left to wake.
        if let Some(task) = tasks.get(waiter.task as usize) {
            task.generation.set(task.generation.get().wrapping_add(1));
            let generation = task.generation.get();
            drop(tasks);
            self.push(self.now.get(), waiter.task, generation);
        }
        Some((waiter, more))
    }

    fn deadlock(&self) -> Deadlock {
        let tasks = self.tasks.borrow();
        let waits = tasks
            .iter()
            .filter(|t| !t.done.get() && !t.daemon)
            .map(|t| match t.waits_for.get() {
                Some((key, Mode::Condvar)) => format!("{} waits to be notified (condvar {key:#x})", t.name),
                Some((key, Mode::Shared)) => format!("{} waits to read lock {key:#x}", t.name),
                Some((key, Mode::Exclusive)) => {
                    let holder = self.parking.borrow().holder(key).and_then(|h| tasks.get(h as usize));
                    let by = holder.map_or("readers", |h| &h.name);
                    format!("{} waits for lock {key:#x}, held by {by}", t.name)
                }
                None => format!("{} was never woken", t.name),
            })
            .collect();
        Deadlock { at: self.now(), waits }
    }

    /// Whether waiting for lock `key`, held by `holder`, can never end because `holder` waits, through other
    /// locks, for the caller. Such a cycle is final even while daemons keep the clock moving. Returns the
    /// report.
    pub(crate) fn find_cycle(&self, key: usize, holder: u32) -> Option<String> {
        let (tasks, parking) = (self.tasks.borrow(), self.parking.borrow());
        let me = self.running.get();
        let next = |at: u32| {
            let (lock, _) = tasks.get(at as usize)?.waits_for.get()?;
            Some((lock, parking.holder(lock)?))
        };
        // Every wait asks, and hardly ever is there a cycle: nothing is written down before there is.
        let (mut at, mut steps) = (holder, 0);
        while at != me {
            (at, steps) = (next(at)?.1, steps + 1);
            if steps > tasks.len() {
                return None;
            }
        }
        let mut chain = vec![format!("{} wants lock {key:#x}", tasks[me as usize].name)];
        at = holder;
        while at != me {
            let (lock, then) = next(at)?;
            chain.push(format!("held by {}, which wants lock {lock:#x}", tasks[at as usize].name));
            at = then;
        }
        chain.push(format!("held by {}", tasks[me as usize].name));
        Some(chain.join(", "))
    }
}
