//! [`Session`] and [`Serving`]: a mount, and the threads that answer for it.
//!
//! ```text
//!   Session::mount ── mount(2), INIT ── Session::serve ── N threads, each with /dev/fuse of its own ──┐
//!                                                               | unmounted, or the connection aborted
//!   Serving::join <── all threads have ended (requests under way may be answered later) <─────────────┘
//!   dropped, either of them: unmounted, if it is mounted still
//! ```
//!
//! Invariants: (1) each request is read by one thread, which serves it whole or hands its [`Reply`] on; (2)
//! unless others are allowed to enter, only the user who mounted is served; what the kernel asks by itself
//! always is.
//!
//! Source: `fs/fuse/dev.c` of the kernel.

use crate::abi::ForgetOne;
use crate::device::{Buffer, Device, Notifier};
use crate::mount::{self, MountConfig};
use crate::reply::Reply;
use crate::request::{Malformed, Op, Request};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

/// A server of requests, from several threads at once.
pub trait Server: Send + Sync + 'static {
    /// Answers a request, at once or later. Never one of [`Op::Forget`], [`Op::BatchForget`], [`Op::Init`],
    /// [`Op::Interrupt`], [`Op::Destroy`] or [`Op::Unknown`].
    fn serve(&self, request: &Request<'_>, reply: Reply);

    /// The kernel gives lookups back, each of which an entry in a reply had given it.
    fn forget(&self, nodes: &[ForgetOne]);
}

/// A mount that is taken away when it is dropped.
#[derive(Debug)]
struct Mount {
    device: Arc<Device>,
    dir: PathBuf,
}

impl Drop for Mount {
    fn drop(&mut self) {
        // If this is not mounted any more, the mount there is somebody else's.
        if self.device.is_connected() {
            mount::unmount(&self.dir);
        }
    }
}

/// A mount that nobody serves yet.
#[derive(Debug)]
pub struct Session {
    mount: Mount,
    config: MountConfig,
}

/// A mount that is served.
#[derive(Debug)]
pub struct Serving {
    threads: Vec<JoinHandle<io::Result<()>>>,
    _mount: Mount,
}

impl Session {
    /// Mounts on a directory (a path without links) and agrees with the kernel on how to talk.
    ///
    /// # Errors
    /// `PermissionDenied` and `NotFound` where mounting takes root or `fusermount3`; what the system says.
    pub fn mount(dir: &Path, config: &MountConfig) -> io::Result<Session> {
        let device = Arc::new(mount::mount(dir, config)?);
        let mount = Mount { device, dir: dir.to_owned() };
        crate::init::shake_hands(&mount.device, config)?;
        Ok(Session { mount, config: config.clone() })
    }

    /// To tell the kernel what it does not ask.
    pub fn notifier(&self) -> Notifier {
        Notifier(Arc::clone(&self.mount.device))
    }

    /// Serves by so many threads.
    ///
    /// # Errors
    /// A thread, or a device for it, could not be had.
    pub fn serve(self, server: Arc<impl Server>, threads: usize) -> io::Result<Serving> {
        let Session { mount, config } = self;
        let only = (!config.allow_other).then(|| geteuid().as_raw());
        let mut devices = vec![Arc::clone(&mount.device)];
        while devices.len() < threads {
            devices.push(Arc::new(mount.device.another()?));
        }
        let mut started = Vec::new();
        for (number, device) in devices.into_iter().enumerate() {
            let mut worker = Worker {
                server: Arc::clone(&server),
                device,
                only,
                buffer: Buffer::new(config.max_write as usize),
            };
            started.push(Builder::new().name(format!("fuse-{number}")).spawn(move || worker.run())?);
        }
        Ok(Serving { threads: started, _mount: mount })
    }
}

impl Serving {
    /// Waits until it is unmounted.
    ///
    /// # Errors
    /// That of the first thread that failed; the mount is taken away then.
    pub fn join(mut self) -> io::Result<()> {
        let mut result = Ok(());
        for thread in self.threads.drain(..) {
            let ended = thread.join().unwrap_or_else(|_| Err(io::Error::other("a serving thread panicked")));
            result = result.and(ended);
        }
        result
    }
}

struct Worker<S> {
    server: Arc<S>,
    device: Arc<Device>,
    /// The only user who is served.
    only: Option<u32>,
    buffer: Buffer,
}

impl<S: Server> Worker<S> {
    fn run(&mut self) -> io::Result<()> {
        while let Some(bytes) = self.device.read(self.buffer.bytes())? {
            match Request::decode(bytes) {
                Ok(request) if request.op == Op::Destroy => {
                    Reply::new(request.unique, &self.device).ok();
                    return Ok(());
                }
                Ok(request) => dispatch(&*self.server, &self.device, self.only, &request),
                Err(Malformed { unique: Some(unique) }) => {
                    Reply::new(unique, &self.device).error(Malformed::ERROR)
                }
                // Nobody can be told.
                Err(Malformed { unique: None }) => {}
            }
        }
        Ok(())
    }
}

fn dispatch(server: &impl Server, device: &Arc<Device>, only: Option<u32>, request: &Request<'_>) {
    match request.op {
        Op::Forget { lookups } => return server.forget(&[ForgetOne::new(request.node, lookups)]),
        Op::BatchForget { nodes } => return server.forget(nodes),
        _ => {}
    }
    let reply = Reply::new(request.unique, device);
    match request.op {
        // The kernel sends no more interrupts after this answer.
        Op::Interrupt | Op::Unknown { .. } => reply.error(Errno::NOSYS),
        Op::Init(_) | Op::Destroy => reply.error(Errno::IO),
        op if only.is_some_and(|user| user != request.uid) && !op.is_the_kernels() => {
            reply.error(Errno::ACCESS)
        }
        _ => server.serve(request, reply),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::{BatchForgetIn, ForgetIn, InHeader, OpenIn, OutHeader, ReadIn, opcode};
    use crate::{Handle, NodeId};
    use std::io::Read;
    use std::os::unix::net::UnixDatagram;
    use std::sync::Mutex;
    use zerocopy::{FromBytes, IntoBytes};

    #[derive(Default)]
    struct Notes {
        served: Mutex<Vec<u64>>,
        forgotten: Mutex<Vec<ForgetOne>>,
    }

    impl Server for Notes {
        fn serve(&self, request: &Request<'_>, reply: Reply) {
            self.served.lock().expect("sound").push(request.unique);
            reply.ok();
        }

        fn forget(&self, nodes: &[ForgetOne]) {
            self.forgotten.lock().expect("sound").extend_from_slice(nodes);
        }
    }

    fn bytes(opcode: u32, unique: u64, uid: u32, body: &[u8]) -> Vec<u8> {
        let len = (size_of::<InHeader>() + body.len()) as u32;
        let header = InHeader { len, opcode, unique, uid, nodeid: 5, ..InHeader::default() };
        [header.as_bytes(), body].concat()
    }

    /// The answer to a request: nothing, or an error (0: done).
    fn answered(server: &Notes, only: Option<u32>, request: &[u8]) -> Option<i32> {
        let (mut read, write) = std::io::pipe().expect("a pipe");
        let device = Arc::new(Device::from(rustix::fd::OwnedFd::from(write)));
        dispatch(server, &device, only, &Request::decode(request).expect("well formed"));
        drop(device);
        let mut all = Vec::new();
        read.read_to_end(&mut all).expect("read");
        (!all.is_empty()).then(|| OutHeader::read_from_bytes(&all).expect("a header").error)
    }

    #[test]
    fn lookups_given_back_are_not_answered() {
        let s = Notes::default();
        assert_eq!(
            answered(&s, Some(7), &bytes(opcode::FORGET, 1, 0, ForgetIn { nlookup: 3 }.as_bytes())),
            None
        );
        let nodes = [ForgetOne::new(NodeId(8), 1), ForgetOne::new(NodeId(9), 2)];
        let body = [BatchForgetIn { count: 2, dummy: 0 }.as_bytes(), nodes.as_bytes()].concat();
        assert_eq!(answered(&s, Some(7), &bytes(opcode::BATCH_FORGET, 2, 0, &body)), None);
        let all = [ForgetOne::new(NodeId(5), 3), nodes[0], nodes[1]];
        assert_eq!(*s.forgotten.lock().expect("sound"), all);
    }

    #[test]
    fn what_is_not_known_is_no_such_call() {
        let s = Notes::default();
        for opcode in [opcode::INTERRUPT, 31, 40, 47, 50, 52, 4096] {
            assert_eq!(answered(&s, None, &bytes(opcode, 1, 0, &[0; 64])), Some(-38));
        }
        assert!(s.served.lock().expect("sound").is_empty());
    }

    #[test]
    fn others_are_not_served_unless_the_kernel_may_be_the_one_who_asks() {
        let s = Notes::default();
        let open = bytes(opcode::OPEN, 1, 1000, OpenIn::default().as_bytes());
        let read = bytes(opcode::READ, 2, 1000, ReadIn::default().as_bytes());
        assert_eq!(answered(&s, Some(0), &open), Some(-13));
        assert_eq!(answered(&s, Some(0), &read), Some(0));
        assert_eq!(answered(&s, Some(1000), &open), Some(0));
        assert_eq!(answered(&s, None, &open), Some(0));
        assert_eq!(*s.served.lock().expect("sound"), [2, 1, 1]);
    }

    #[test]
    fn a_worker_answers_what_it_cannot_read_and_ends_with_destroy() {
        let (kernel, ours) = UnixDatagram::pair().expect("a socket");
        let device = Arc::new(Device::from(rustix::fd::OwnedFd::from(ours)));
        let buffer = Buffer::new(4096);
        let server = Arc::new(Notes::default());
        let mut worker = Worker { server, device, only: None, buffer };
        let mut lookup = bytes(opcode::LOOKUP, 3, 0, b"name");
        kernel.send(&lookup).expect("sent");
        kernel.send(&lookup[..10]).expect("sent");
        lookup.truncate(45);
        kernel.send(&lookup).expect("sent");
        kernel.send(&bytes(opcode::DESTROY, 4, 0, &[])).expect("sent");
        worker.run().expect("ends");
        let next = || {
            let mut out = [0; 100];
            let n = kernel.recv(&mut out).expect("answered");
            let h = OutHeader::read_from_bytes(&out[..n]).expect("a header");
            (h.unique, h.error)
        };
        // A name without an end; a header that says another length; the end.
        assert_eq!([next(), next(), next()], [(3, -22), (3, -22), (4, 0)]);
        assert_eq!(Handle::default(), Handle(0));
    }
}
