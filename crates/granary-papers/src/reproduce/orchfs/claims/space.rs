//! Table 2: what files take of both devices.

use super::Rows;
use crate::reproduce::claim::row;
use crate::reproduce::orchfs::plan::{ARTIFACT, PAPER, SIZES};
use crate::reproduce::verdict::{Paper, Stat};
use Paper::{Above, Number, Silent};

/// Table 2: the size, then GB in pages, Upages and blocks, after the fill and after the overwrites.
const TABLE2: [(&str, [f64; 3], [f64; 3]); 8] = [
    ("1 to 16 KB", [10.0, 0.0, 0.0], [10.0, 0.0, 0.0]),
    ("32 KB", [9.76, 0.0, 0.24], [9.89, 0.03, 0.24]),
    ("64 KB", [5.19, 0.0, 4.81], [7.06, 0.47, 4.81]),
    ("128 KB", [2.50, 0.0, 7.50], [4.19, 0.42, 7.50]),
    ("256 KB", [1.25, 0.0, 8.75], [2.34, 0.27, 8.75]),
    ("512 KB", [0.63, 0.0, 9.37], [1.25, 0.15, 9.37]),
    ("1 MB", [0.31, 0.0, 9.69], [0.63, 0.08, 9.69]),
    ("1 B to 2 MB", [0.32, 0.0, 9.68], [0.64, 0.08, 9.68]),
];
/// The name of a unit in `memory` of records, that of its rows, and what its two rows say.
const UNITS: [(&str, &str, &str, &str); 3] = [
    ("space.nvm_page", "page", "NVM pages after the fill, GB", "NVM pages after overwrites, GB"),
    ("space.nvm_upage_made", "upage", "Upages after the fill, GB", "Upages after overwrites, GB"),
    ("space.ssd_block", "block", "SSD blocks after the fill, GB", "SSD blocks after overwrites, GB"),
];

/// Short names of the rows of a size.
const NAMES: [&str; 8] = ["small", "32k", "64k", "128k", "256k", "512k", "1m", "mixed"];

impl Rows<'_> {
    /// GB of 10 that `unit` takes after this workload.
    fn space(&self, setting: &str, what: &str, size: &str, unit: &str) -> Option<f64> {
        let r = self.r.find(setting, &format!("{what}-{size}"), "orchfs")?;
        let of = |unit: &str| r.memory.get(unit).copied().unwrap_or(0) as f64;
        let filled = if what == "fill" { r.app.write_bytes as f64 } else { r.app.write_bytes as f64 / 2.0 };
        Some(10.0 * of(unit) / filled.max(1.0))
    }

    fn cell(&self, setting: &str, what: &str, row: usize, unit: &str) -> Option<Vec<f64>> {
        // The first row stands for four sizes.
        let sizes = if row == 0 { &SIZES[..4] } else { &SIZES[row + 3..][..1] };
        sizes.iter().map(|size| self.space(setting, what, size, unit)).collect()
    }

    pub(super) fn table2(&mut self) {
        for (n, (unit, short, after_fill, after)) in UNITS.into_iter().enumerate() {
            for (i, (size, fill, over)) in TABLE2.into_iter().enumerate() {
                let (stat, set) = if i == 0 { (Stat::Mean, "1, 4, 8, 16 KB") } else { (Stat::One, "") };
                for (what, label, paper) in [("fill", after_fill, fill[n]), ("over", after, over[n])] {
                    let name = format!("{}-{short}-{what}", NAMES[i]);
                    let cell = self.cell(ARTIFACT, what, i, unit);
                    self.all.push(row("table2", name, size, label, Number(paper)).over(stat, set, cell));
                }
            }
        }
        // The paper's text describes this; the published table does not follow it.
        for (i, (size, ..)) in TABLE2.into_iter().enumerate().skip(1) {
            let ours = self.cell(PAPER, "over", i, "space.nvm_upage");
            let what = "Upages with the text's reclaim, GB";
            let reclaim = row("table2", format!("{}-reclaim", NAMES[i]), size, what, Silent);
            self.all.push(reclaim.over(Stat::One, "", ours));
        }
        let share = self.r.main("over-1m", "orchfs").and_then(|r| {
            let by = |role: &str| {
                let host = &r.devices.get(role)?.host;
                let all = host.block.write_bytes.values().chain(host.byte.write_bytes.values());
                Some(all.sum::<u64>() as f64)
            };
            Some(by("ssd")? / (by("ssd")? + by("nvm")?))
        });
        let what = "share of bytes that the SSD serves";
        self.all.push(row("table2", "ssd-share", "1 MB", what, Above(0.5)).ours(share));
    }
}
