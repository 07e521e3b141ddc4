//! [`Ring`]: the queue of one thread, and the daemon that serves it.
//!
//! A thread that waits for less than 5 ms has spun and goes on at once; after that it has parked, and waking
//! costs a switch.

use super::{Devices, SPIN, Shared, Work};
use granary_sim::sync::{Condvar, Mutex};
use granary_sim::{Daemon, costs, cpu, now};
use std::collections::VecDeque;
use std::sync::Arc;

#[derive(Default)]
struct Queue {
    tasks: VecDeque<(Work, Option<Arc<Shared>>)>,
    closed: bool,
}

#[derive(Default)]
struct Inner {
    queue: Mutex<Queue>,
    filled: Condvar,
}

/// See the module.
pub struct Ring {
    inner: Arc<Inner>,
    daemon: parking_lot::Mutex<Option<Daemon>>,
}

impl Ring {
    /// An empty one, whose thread waits.
    pub fn start(devices: Arc<Devices>) -> Arc<Ring> {
        let inner = Arc::new(Inner::default());
        let served = inner.clone();
        let daemon = Daemon::start("orchfs_ssd", move |_| {
            while let Some((work, shared)) = served.next() {
                carry_out(&work, &devices, shared.as_deref());
            }
        });
        Arc::new(Ring { inner, daemon: parking_lot::Mutex::new(Some(daemon)) })
    }

    /// Appends an I/O.
    pub fn push(&self, work: Work, shared: Option<Arc<Shared>>) {
        self.inner.queue.lock().tasks.push_back((work, shared));
        self.inner.filled.notify_all();
    }

    /// The thread ends when the ring is empty.
    pub fn close(&self) {
        self.inner.queue.lock().closed = true;
        self.inner.filled.notify_all();
    }

    /// The same, and waits for it.
    pub fn stop(&self) {
        self.close();
        let daemon = self.daemon.lock().take();
        if let Some(daemon) = daemon {
            daemon.stop();
        }
    }
}

impl Inner {
    /// The next I/O; `None`: there will be none.
    fn next(&self) -> Option<(Work, Option<Arc<Shared>>)> {
        let begin = now();
        let mut queue = self.queue.lock();
        loop {
            if let Some(task) = queue.tasks.pop_front() {
                drop(queue);
                if now().saturating_sub(begin) > SPIN {
                    cpu(costs().context_switch);
                }
                return Some(task);
            }
            if queue.closed {
                return None;
            }
            self.filled.wait(&mut queue);
        }
    }
}

fn carry_out(work: &Work, devices: &Devices, shared: Option<&Shared>) {
    let result = work.start(devices);
    if let Some(shared) = shared {
        shared.submitted(result.as_ref().map_or(now(), |ticket| ticket.done()));
    }
    let result = result.map(|ticket| work.end(devices, ticket));
    if let Some(shared) = shared {
        shared.done(result);
    }
}
