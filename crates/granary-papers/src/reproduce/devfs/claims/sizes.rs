//! Sizes and the platform: none of them is a result.

use super::{Rows, bytes};
use crate::reproduce::claim::row;
use crate::reproduce::verdict::Paper;
use Paper::{Number, Range};
use granary_devfs::memory::Kind;

const F: &str = "sizes";

impl Rows<'_> {
    pub(super) fn sizes(&mut self) {
        self.background();
        self.objects();
        for (name, what, paper, value) in [
            ("host-cores", "host's processors", 40.0, "host processors"),
            ("clock", "clock, GHz", 2.67, "drive's clock, GHz"),
            ("storage", "storage, GB", 60.0, "storage, GB"),
            ("drive-cores", "drive's processors", 4.0, "drive's processors"),
            ("drive-memory", "drive's memory, GB", 2.0, "drive's memory, GB"),
        ] {
            let ours = self.alone(value);
            self.all.push(row(F, name, "platform", what, Number(paper)).input().ours(ours));
        }
        // The testbed states the memory's parts.
        self.all.push(row(F, "memory", "platform", "memory, GB", Number(128.0)).input());
    }

    /// Statements of the paper on other machines.
    fn background(&mut self) {
        for (name, what, paper) in [
            ("ssd-throughput", "throughput of PCIe SSDs, GB/s", Range(8.0, 16.0)),
            ("ssd-latency", "latency of PCIe SSDs, us", Range(20.0, 50.0)),
            ("scm-read", "read latency of SCM, ns", Range(100.0, 200.0)),
            ("scm-write", "write latency of SCM, ns", Range(400.0, 800.0)),
            ("scm-bandwidth", "bandwidth of SCM, GB/s", Range(8.0, 20.0)),
            ("scm-capacity", "capacity of SCM over DRAM", Range(2.0, 4.0)),
            ("ssd-memory", "memory of a 512 GB SSD, GB", Number(2.0)),
            ("ssd-cores", "processors of controllers, up to", Number(4.0)),
        ] {
            self.all.push(row(F, name, "background", what, paper).input());
        }
    }

    /// The ledger counts the paper's sizes (section 4.4).
    fn objects(&mut self) {
        let asked = self.alone("host processors");
        let is = |v: f64| asked.map(|_| v);
        let inode = bytes(Kind::InodeDevice) + bytes(Kind::InodeHost);
        for (name, what, paper, ours) in [
            ("inode", "inode, B", 840.0, is(inode)),
            ("dentry", "dentry, B", 192.0, is(bytes(Kind::Dentry))),
            ("file-pointer", "file pointer, B", 256.0, is(bytes(Kind::FilePointer))),
            ("filemap", "filemap, B", 156.0, is(bytes(Kind::Filemap))),
            // The paper evaluates 578 and 262 (section 5.3): these are generic and own fields.
            ("generic", "generic fields of an inode, B", 593.0, None),
            ("own", "own fields of an inode, B", 247.0, None),
            ("host-part", "part in the host, B", 593.0, None),
            ("queue", "queue and journal of a file, KB each", 4.0, is(bytes(Kind::Queue) / 1024.0)),
        ] {
            self.all.push(row(F, name, "objects", what, Number(paper)).constant().ours(ours));
        }
        let most = is(granary_devfs::command::MOST as f64 / f64::from(1 << 20));
        let buffer = row(F, "buffer", "commands", "buffer of a process, at most, MB", Number(4.0));
        self.all.push(buffer.constant().ours(most));
        for (name, what, paper) in
            [("library", "user library, lines", 2000.0), ("system", "file system, lines", 9000.0)]
        {
            self.all.push(row(F, name, "code", what, Number(paper)).constant());
        }
    }
}
