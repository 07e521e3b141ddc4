//! Figures 8 and 9: the drive's memory by step, and what each step costs.

use super::{ALL, CAP, DEMAND, DENTRY, INODE, In, Rows, bytes, memory, per_s};
use crate::reproduce::claim::row;
use crate::reproduce::verdict::Paper;
use Paper::{About, Above, Number};
use granary_devfs::memory::Kind;

impl Rows<'_> {
    /// The drive's memory for a million files, in units of 2^20.
    fn each(&self, of: In) -> Option<f64> {
        let r = self.r.find(of.0, "file-create", of.1)?;
        let created = r.ops.by_type.get("c").map(|op| op.count as f64)?;
        Some(memory(r) / created * 1e6 / f64::from(1 << 20))
    }

    pub(super) fn memory(&mut self) {
        let cap = self.each(CAP);
        let saved = |a: In, b: In| self.each(b).zip(self.each(a)).map(|(b, a)| b - a);
        let share = |saved: Option<f64>| saved.zip(cap).map(|(saved, cap)| 100.0 * saved / cap);
        let files = row("8", "files", "files", "millions", Number(1.0)).input();
        let demand = saved(DEMAND, CAP);
        let dentry = saved(DENTRY, DEMAND);
        let one = row("8", "demand", "+demand", "less than +cap, MB", Number(156.0)).ours(demand);
        let what = "less than +cap, %";
        let two = row("8", "demand-share", "+demand", what, Number(13.4)).saved().ours(share(demand));
        let three = row("8", "dentry", "+dentry", "less than +demand, MB", Number(193.0)).ours(dentry);
        let what = "less than +demand, % of +cap";
        let four = row("8", "dentry-share", "+dentry", what, Number(16.6)).saved().ours(share(dentry));
        let is = |kind: Kind| cap.map(|_| bytes(kind));
        let device = row("8", "inode-device", "inode", "part in the drive, B", Number(262.0)).constant();
        let device = device.ours(is(Kind::InodeDevice));
        let host = row("8", "inode-host", "inode", "part in the host, B", Number(578.0)).constant();
        let host = host.ours(is(Kind::InodeHost));
        let what = "less than +cap, up to, %";
        let all = row("8", "inode", "+inode", what, Number(78.0)).saved().ours(share(saved(INODE, CAP)));
        self.all.extend([files, one, two, three, four, device, host, all]);
    }

    pub(super) fn reverse_caching(&mut self) {
        let w = "file-create";
        let what = "throughput +demand/+cap";
        let demand = row("9", "demand", w, what, About(1.0)).factor().ours(self.faster(w, DEMAND, CAP));
        // "Slower" is a loss: its size is compared, as a gain's.
        let slower = |step: In| self.less(w, step, CAP, per_s);
        let what = "+dentry slower than +cap, %";
        let dentry = row("9", "dentry", w, what, Number(5.0)).gain().ours(slower(DENTRY));
        let what = "+inode slower than +cap, %";
        let inode = row("9", "inode", w, what, Number(13.0)).gain().ours(slower(INODE));
        let faster = self.faster(w, ALL, CAP);
        let what = "throughput all+direct/+cap";
        let all = row("9", "all", w, what, Above(1.0)).factor().ours(faster);
        let moved = row("9", "moved", "objects", "bytes moved of an inode", Number(578.0)).constant();
        let moved = moved.ours(faster.map(|_| bytes(Kind::InodeHost)));
        let what = "+inode slower than +cap, %";
        let reopen = row("9", "reopen", "file-reopen", what, Number(26.0)).gain();
        let reopen = reopen.ours(self.less("file-reopen", INODE, CAP, per_s));
        // The paper: the step of the inode costs more than that of the dentry, by their sizes.
        let step = self.faster(w, DEMAND, DENTRY).zip(self.faster(w, DENTRY, INODE));
        let what = "step of the inode less that of the dentry, points";
        let larger = row("9", "inode-dentry", w, what, Above(0.0)).gain();
        let larger = larger.ours(step.map(|(dentry, inode)| 100.0 * (inode - dentry)));
        self.all.extend([demand, dentry, inode, all, moved, reopen, larger]);
    }
}
