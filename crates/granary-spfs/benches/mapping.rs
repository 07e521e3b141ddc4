//! The slides' comparison of three mappings: 8,000 files of 256 MB in persistent memory of DRAM speed,
//! scaled.
//!
//! Command: `cargo bench -p granary-spfs --bench mapping -- --files 80`. Numbers are virtual time, the same
//! in every run.

use granary_device::Port;
use granary_pmem::{Dimm, DimmConfig};
use granary_sim::World;
use granary_spfs::exthash::Form;
use granary_spfs::mapping::{Structure, measure, size_for};
use std::sync::Arc;

fn main() {
    let mut args = std::env::args().skip_while(|arg| arg != "--files").skip(1);
    let files: u64 = args.next().and_then(|n| n.parse().ok()).filter(|n| *n > 0).unwrap_or(8);
    println!("{files} files of 256 MB, 256 KiB at a time");
    println!("{:<24} {:>12} {:>12} {:>14}", "", "insert, ns", "lookup, ns", "bytes a file");
    for structure in [
        Structure::ExtentTree,
        Structure::ExtentHash(Form::Carved),
        Structure::ExtentHash(Form::Pointers),
        Structure::BlockHash,
    ] {
        let config = DimmConfig::nvdimm_n().with_capacity(size_for(files));
        let port = Port::new(Arc::new(Dimm::new(&config).expect("a DIMM")));
        let m =
            World::default().run(move || measure(&port, structure, files)).expect("ends").expect("measured");
        println!("{:<24} {:>12.0} {:>12.0} {:>14.0}", format!("{structure:?}"), m.insert, m.lookup, m.memory);
    }
}
