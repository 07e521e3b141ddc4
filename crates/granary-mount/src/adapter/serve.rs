//! Requests that come, and what the kernel forgets.

use super::{Adapter, Answer, files, xattrs};
use crate::adapter::privileges::Requester;
use crate::convert::errno;
use crate::operations::Operation;
use granary_fs::Result;
use granary_fuse::abi::{ForgetOne, OpenOut, OpenedAs};
use granary_fuse::{Listing, Op, Reply, Request, Server};
use rustix::io::Errno;

impl Server for Adapter {
    fn serve(&self, request: &Request<'_>, reply: Reply) {
        if self.declines(&request.op) {
            self.advise_overlay(&request.op);
            return reply.error(Errno::NOSYS);
        }
        if let Some(kind) = Operation::of(&request.op) {
            self.operations.count(kind);
        }
        let whom = whom(request);
        let _whose = granary_sim::on_behalf(whom);
        let node = request.node;
        match request.op {
            Op::Lookup { name } => self.answer(reply, || self.lookup(node, name), Reply::entry),
            Op::Getattr => {
                self.answer(reply, || self.getattr(node), |r, a| r.attr(self.told_attr(a)));
            }
            Op::Readlink => self.answer(reply, || self.readlink(node), |r, target| r.data(&target)),
            Op::Open { flags } => {
                let open = || Ok(OpenOut::new(self.open(node, flags)?, files::OPENED));
                self.answer(reply, open, Reply::opened);
            }
            Op::Read { handle, offset, size, flags } => {
                self.guard.answer(|| self.read((node, handle), offset, size as usize, flags, reply));
            }
            Op::Write { handle, offset, data, flags, cached, kill } => {
                let who = (whom, Requester::of(request, kill));
                let flags = (!cached).then_some(flags);
                self.guard.answer(|| self.write(who, (node, handle), offset, data, flags, reply));
            }
            Op::Release { handle } => {
                if let Some(file) = self.handles.as_ref().and_then(|handles| handles.remove(handle)) {
                    self.guard.answer(|| self.close(file));
                }
                reply.ok();
            }
            Op::Fsync { data_only } | Op::Fsyncdir { data_only } => {
                self.guard.answer(|| self.fsync(node, data_only, reply));
            }
            Op::Opendir => {
                let open = || Ok(OpenOut::new(self.opendir(node)?, OpenedAs::empty()));
                self.answer(reply, open, Reply::opened);
            }
            Op::Readdir { handle, offset, size } => {
                self.answer(
                    reply,
                    || self.readdir((node, handle), offset, Listing::new(size)),
                    Reply::listing,
                );
            }
            Op::Readdirplus { handle, offset, size } => {
                let list = || self.readdirplus((node, handle), offset, Listing::new(size));
                self.answer(reply, list, Reply::listing);
            }
            Op::Releasedir { handle } => {
                self.directories.remove(handle);
                reply.ok();
            }
            Op::Statfs => self.statfs(reply),
            Op::Getxattr { name, size } => {
                xattrs::answer(reply, size, self.guard.run(|| self.getxattr(node, name)));
            }
            Op::Listxattr { size } => {
                xattrs::answer(reply, size, self.guard.run(|| self.listxattr(request)));
            }
            Op::Ioctl { cmd, data, room } => {
                let caller = Requester::of(request, false);
                let done = move |reply: Reply, data: Option<Vec<u8>>| match data {
                    Some(data) => reply.ioctl(&data[..data.len().min(room as usize)]),
                    None => reply.error(Errno::NOTTY),
                };
                let call = || self.ioctl(caller, node, cmd, data);
                let mapped = self.guard.run(|| self.must_write_back(node, cmd, data));
                match mapped {
                    Ok(true) => {
                        let data = data.to_vec();
                        self.drop_pages(node, (0, 0), move |adapter| {
                            adapter.answer(reply, || adapter.ioctl(caller, node, cmd, &data), done);
                        });
                    }
                    Ok(false) => self.answer(reply, call, done),
                    Err(e) => reply.error(errno(&e)),
                }
            }
            Op::Lseek { offset, whence } => self.guard.answer(|| self.seek(node, offset, whence, reply)),
            // Not asked with default_permissions.
            Op::Access => reply.ok(),
            _ => self.answer_change(request, reply),
        }
    }

    fn forget(&self, nodes: &[ForgetOne]) {
        let _whose = nodes.first().map(|one| granary_sim::on_behalf(one.node().0 as usize));
        self.guard.answer(|| self.forget_nodes(nodes));
    }
}

/// On whose behalf a request is served: its process's; nobody's (what the kernel does by itself) counts as
/// the file's.
pub(super) fn whom(request: &Request<'_>) -> usize {
    match request.pid {
        0 => request.node.0 as usize,
        pid => pid as usize,
    }
}

pub(super) fn send(reply: Reply, result: Result<Answer>) {
    match result {
        Ok(Answer::Done) => reply.ok(),
        Ok(Answer::Entry(entry)) => reply.entry(entry),
        Ok(Answer::Attr(attr)) => reply.attr(attr),
        Ok(Answer::Created(entry, file)) => reply.created(entry, file),
        Err(e) => reply.error(errno(&e)),
    }
}
