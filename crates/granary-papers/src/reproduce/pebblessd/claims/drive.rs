//! Values of the testbed's drive, and the memory that the paper's tables take: none is a result.

use super::Rows;
use crate::reproduce::claim::row;
use crate::reproduce::verdict::Paper;
use Paper::{Above, Below, Number, Range};

impl Rows<'_> {
    pub(super) fn platform(&mut self) {
        let f = "platform";
        // The host's emulated pages are of 4 KiB. Lanes: the testbed states their bandwidth.
        let page = self.alone("capacity, GB").map(|_| 4.096);
        for (name, on, what, paper, ours) in [
            ("page", "flash", "page, KB", Range(4.0, 8.0), page),
            ("read", "flash", "read, us", Below(100.0), self.alone("read, us")),
            ("program", "flash", "program, several hundred us", Above(100.0), self.alone("program, us")),
            ("block", "flash", "pages of a block", Range(64.0, 512.0), self.alone("pages a block")),
            ("erase", "flash", "erase, several ms", Above(1.0), self.alone("erase, ms")),
            ("lanes", "the drive", "lanes of PCIe 3.0", Number(4.0), None),
            ("capacity", "the drive", "capacity, GB", Number(375.0), self.alone("capacity, GB")),
            ("channels", "the drive", "channels", Number(16.0), self.alone("channels")),
            ("clock", "the drive", "firmware clock, MHz", Number(500.0), self.alone("clock, MHz")),
            ("core-memory", "the drive", "private memory of a core, KB", Number(128.0), None),
            ("dram", "the drive", "DRAM, GB", Number(2.0), self.alone("memory, GiB")),
            ("host-cores", "the host", "host processors", Number(4.0), self.alone("host cores")),
            ("host-memory", "the host", "memory, GB", Number(32.0), None),
            ("linux", "the host", "Linux", Number(3.16), None),
            ("threads-rate", "microbenchmarks", "threads for throughput", Number(4.0), None),
            ("threads-latency", "microbenchmarks", "threads for latency", Number(1.0), None),
        ] {
            self.all.push(row(f, name, on, what, paper).input().ours(ours));
        }
        // The paper says 64 bits here and 4 bytes in section 6.5, which the emulator has.
        for (name, what, entry) in [
            ("p2l-entry", "P2L entry, bits", "P2L entry, B"),
            ("offset-entry", "file offset entry, bits", "file offset entry, B"),
        ] {
            let ours = self.alone(entry).map(|b| 8.0 * b);
            self.all.push(row(f, name, "BAM", what, Number(64.0)).constant().ours(ours));
        }
    }

    /// The paper's own tables: entries times their size, and the share of 2 GB that they take.
    pub(super) fn memory(&mut self) {
        let f = "6.5";
        let entries = f64::from(1u32 << 27);
        for (name, on, what, paper, value) in [
            ("l2p-entry", "conventional", "L2P entry, B", 4.0, "L2P entry, B"),
            ("l2p-entries", "conventional", "L2P entries, 2^27", entries, "L2P entries"),
            ("offset-entry", "fs_write", "file offset and inode entry, B", 8.0, "file offset entry, B"),
            ("offset-entries", "fs_write", "file offset entries, 2^27", entries, "file offset entries"),
        ] {
            self.all.push(row(f, name, on, what, Number(paper)).constant().ours(self.alone(value)));
        }
        let files = row(f, "files", "fs_write", "files open for writing", Number(1e6)).input();
        self.all.push(files.ours(self.alone("files")));
        let both = self.alone("L2P, MiB").zip(self.alone("P2L, MiB")).map(|(l, p)| (l + p) / 1024.0);
        for (name, on, what, paper, ours) in [
            ("l2p", "conventional", "L2P table, MB", 512.0, self.alone("L2P, MiB")),
            ("conventional", "conventional", "memory used, %", 35.0, self.alone("conventional, %")),
            ("both", "remap", "L2P and P2L tables, GB", 1.0, both),
            ("remap", "remap", "memory used, %", 60.0, self.alone("remap, %")),
            ("offsets", "fs_write", "file offset table, GB x 1024", 1024.0, self.alone("file offsets, MiB")),
            ("inodes", "fs_write", "inode table, MB", 16.0, self.alone("inodes, MiB")),
            ("fs_write", "fs_write", "memory used, %", 80.0, self.alone("fs_write, %")),
        ] {
            self.all.push(row(f, name, on, what, Number(paper)).arithmetic().ours(ours));
        }
    }
}
