//! The two sides beside each other.

use super::Traffic;
use comfy_table::Cell;
use granary_bench::columns::{grid, group, right};
use granary_device::Structure;

/// Aims: share by which all written bytes, and by which each structure may differ.
const TOTAL: f64 = 0.10;
const EACH: f64 = 0.20;
/// A structure below this share of all writes is shown and not judged: a few blocks decide.
const SMALL: f64 = 0.01;

fn row(out: &mut Vec<(String, u64, u64)>, name: String, kernel: u64, ours: u64) {
    if kernel + ours > 0 {
        out.push((name, kernel, ours));
    }
}

fn rows(kernel: &Traffic, ours: &Traffic) -> Vec<(String, u64, u64)> {
    let mut out = Vec::new();
    for s in Structure::ALL {
        let i = s as usize;
        row(&mut out, format!("written: {}", s.name()), kernel.written[i], ours.written[i]);
    }
    row(&mut out, "written: unknown".to_owned(), kernel.unknown, ours.unknown);
    row(&mut out, "written: all".to_owned(), kernel.total_written(), ours.total_written());
    for s in Structure::ALL {
        let i = s as usize;
        row(&mut out, format!("read: {}", s.name()), kernel.read[i], ours.read[i]);
    }
    out
}

/// The sides in a table: KiB, and flushes.
pub fn table(load: &str, kernel: &Traffic, ours: &Traffic) -> String {
    let header = [format!("{load}, KiB"), "kernel".into(), "granary-ext4".into(), "ours/kernel".into()];
    let mut t = grid(header.to_vec());
    let ratio = |k: u64, o: u64| if k == 0 { "-".to_owned() } else { format!("{:.3}", o as f64 / k as f64) };
    for (name, k, o) in rows(kernel, ours) {
        t.add_row([Cell::new(name), right(group(k / 1024)), right(group(o / 1024)), right(ratio(k, o))]);
    }
    let (k, o) = (kernel.flushes, ours.flushes);
    t.add_row([Cell::new("flushes and FUA writes"), right(group(k)), right(group(o)), right(ratio(k, o))]);
    let (k, o) = (kernel.commits, ours.commits);
    t.add_row([Cell::new("commits"), right(group(k)), right(group(o)), right(ratio(k, o))]);
    t.to_string()
}

/// Traffic that misses the aims: all bytes written within 10 %, each structure of weight within 20 %.
pub fn judge(kernel: &Traffic, ours: &Traffic) -> Vec<String> {
    let mut misses = Vec::new();
    let off = |k: u64, o: u64, by: f64| k.abs_diff(o) as f64 > k as f64 * by;
    let all = kernel.total_written();
    if off(all, ours.total_written(), TOTAL) {
        misses.push(format!("all writes: kernel {all}, ours {}", ours.total_written()));
    }
    for s in Structure::ALL {
        let (k, o) = (kernel.written[s as usize], ours.written[s as usize]);
        if k.max(o) as f64 > all as f64 * SMALL && off(k, o, EACH) {
            misses.push(format!("{}: kernel {k}, ours {o}", s.name()));
        }
    }
    if kernel.unknown > 0 {
        misses.push(format!("{} bytes of the kernel's writes were not recognised", kernel.unknown));
    }
    misses
}
