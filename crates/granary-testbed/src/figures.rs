//! Figures that follow from a testbed's values, and contradictions between the values: those of its SSD
//! ([`granary_bench::figures`]), and the rest.

use crate::testbed::{Host, Testbed};
use granary_bench::figures as ssd;
use granary_fs::entry::Inside;
use granary_mssd::DriveConfig;
use granary_pmem::DimmConfig;
use granary_units::{Bytes, PAGE_SIZE};

/// Name and value of each figure, in the order of a report.
pub fn figures(t: &Testbed) -> Vec<(&'static str, String)> {
    let ssd = t.drive.iter().flat_map(ssd::figures);
    ssd.chain(t.device.nvm.iter().flat_map(of_nvm)).chain(t.inside.iter().flat_map(of_inside)).collect()
}

fn of_nvm(nvm: &DimmConfig) -> Vec<(&'static str, String)> {
    let all = |each: Bytes| format!("{:.2} GB/s", (each.0 * nvm.dimms as u64) as f64 / 1e9);
    vec![
        ("NVM, capacity", format!("{}, {} DIMMs", Bytes(nvm.pages() * PAGE_SIZE as u64), nvm.dimms)),
        ("NVM, read", all(nvm.read_bandwidth)),
        ("NVM, write", all(nvm.write_bandwidth)),
        ("NVM, 64 B load, random", nvm.read_random.to_string()),
        ("NVM, 64 B load, sequential", nvm.read_sequential.to_string()),
        ("NVM, 64 B non-temporal store and fence", nvm.nt_store.to_string()),
        ("NVM, 64 B store, clwb and fence", nvm.store_clwb.to_string()),
        ("NVM, granule", nvm.granule.to_string()),
    ]
}

fn of_inside(inside: &Inside) -> Vec<(&'static str, String)> {
    vec![
        ("processors in the drive", format!("{} at {} MHz", inside.cores, inside.clock_mhz)),
        ("drive memory for file systems", inside.memory.to_string()),
    ]
}

/// Values that other values contradict, and those that no hardware has: the key to look at and a sentence.
pub fn contradictions(t: &Testbed) -> Vec<(&'static str, String)> {
    let mut out: Vec<_> = t.drive.iter().flat_map(ssd::contradictions).collect();
    out.extend(of_host(&t.host));
    out
}

/// The same for the record of a run on this SSD (if it uses one), whose firmware is in the mode of the run;
/// of a run of programs with their host.
pub fn of_run(drive: &Option<DriveConfig>, host: Option<&Host>) -> Vec<String> {
    let host = host.and_then(of_host).map(|(key, text)| format!("{key}: {text}"));
    drive.iter().flat_map(ssd::of_run).chain(host).collect()
}

fn of_host(host: &Host) -> Option<(&'static str, String)> {
    (host.costs.copy_bandwidth.0 == 0).then(|| {
        ("host.costs.copy_bandwidth", "0: copies between programs and the page cache are free".to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::builtins;
    use granary_bench::figures::{Peaks, lone_read, lone_write};
    use granary_mssd::Mode;

    #[test]
    fn the_built_in_testbeds_do_not_contradict_themselves() {
        for (name, _) in builtins() {
            let said = Testbed::warnings(name).expect("built in");
            if name == "bytefs-reproduction" {
                // The paper's Table 4 contradicts itself: one way a channel cannot reach its bandwidths.
                assert!(said.len() == 2 && said.iter().all(|s| s.contains("cannot be reached")), "{said:?}");
                continue;
            }
            assert_eq!(said, Vec::<String>::new(), "{name}");
        }
    }

    /// Processor times are those at the clock that the drive runs at, not at the one for which they are
    /// stated.
    #[test]
    fn a_slower_clock_makes_the_firmware_slower() {
        let rated = Testbed::load("bytefs-emulator", &[]).expect("built in");
        let ssd = |t: &Testbed| t.ssd().expect("one").clone();
        let clock = format!("clock_mhz={}", ssd(&rated).firmware.rated_mhz / 2);
        let slow = Testbed::load("bytefs-emulator", &[clock]).expect("valid");
        let (rated, slow) = (ssd(&rated), ssd(&slow));
        let command = rated.firmware.command_cost;
        assert_eq!(lone_read(&slow), lone_read(&rated) + command);
        assert_eq!(lone_write(&slow), lone_write(&rated) + command);
        assert_eq!(Peaks::of(&slow).firmware * 2.0, Peaks::of(&rated).firmware);
    }

    #[test]
    fn every_contradiction_is_seen() {
        for (set, word) in [
            (
                "geometry.ways=2",
                "planes of 60us program 1.09 GB/s, so that the link's 2.50 GB/s cannot be reached: 37",
            ),
            ("nand.read_ns=90000", "read 2.91 GB/s"),
            ("channel_bandwidth=200000000", "8 channels carry 1.60 GB/s"),
            ("command_cost=4000", "the firmware takes 1.02 GB/s"),
            ("write_buffer=64KiB", "two pages for each plane (512KiB)"),
            ("line_write=6000", "a posted store"),
            ("verify_read=100", "a write-verify read of 100ns beside a line's of 4.8us"),
            ("txlog='16GiB'", "the TxLog of 16GiB is larger than the log"),
            ("line_read=50", "takes the firmware 104ns alone"),
            ("erase_ns=10", "programs faster than it erases"),
            ("blocks_per_plane=20", "each plane needs 9 blocks"),
            ("over_provisioning_permille=0", "0 % are stated, 0.8 % it is"),
            ("over_provisioning_permille=2000", "more spare than data"),
            ("nand.read_ns=1", "1ns: no NAND is done in less than a microsecond"),
            ("nand.program_ns=999", "no NAND"),
            ("nand.erase_ns=1", "no NAND"),
            ("read_ppb=500000000", "50 % of all reads fail"),
            ("program_ppb=200000000", "20 % of all programs fail"),
            ("erase_ppb=100000001", "10 % of all erases fail"),
            ("idle_gc_stop=9", "no gc in idle time"),
            ("plane_mode=multi-plane", "one plane in a die"),
            ("copy_bandwidth=0", "are free"),
            ("firmware.cache=64GiB", "the cache of 64GiB holds the whole drive"),
            ("firmware.write_buffer=64GiB", "the write buffer of 64GiB holds the whole drive"),
        ] {
            let t = Testbed::load("bytefs-emulator", &[set.to_owned()]).expect(set);
            let found = contradictions(&t);
            assert!(found.iter().any(|(_, text)| text.contains(word)), "{set}: {found:?}");
        }
        let sets = ["geometry.planes=4", "plane_mode=multi-plane"].map(str::to_owned);
        let found = contradictions(&Testbed::load("bytefs-emulator", &sets).expect("valid"));
        assert!(found.iter().any(|(_, text)| text.contains("gc's copies go one at a time")), "{found:?}");
    }

    /// Gc's blocks are a share of a small plane that is larger than the stated one: write amplification
    /// follows the real share.
    #[test]
    fn spare_space_that_is_not_what_is_stated_is_told_with_both_shares() {
        let of = |blocks: u32, permille: u32| {
            let sets = [
                format!("blocks_per_plane={blocks}"),
                format!("over_provisioning_permille={permille}"),
                "gc_stop=5".to_owned(),
            ];
            let t = Testbed::load("bytefs-emulator", &sets).expect("valid");
            let found = of_run(&t.drive, Some(&t.host));
            found.into_iter().find(|text| text.starts_with("drive.flash.over_provisioning_permille: "))
        };
        let said = of(110, 10).expect("8.9 % instead of 1 %");
        assert!(
            said.contains("1 % are stated, 8.9 % it is") && said.contains("with 909 blocks_per_plane"),
            "{said}"
        );
        assert_eq!((of(909, 10), of(110, 85), of(1096, 70)), (None, None, None));
        assert!(of(110, 80).is_some(), "a tenth of 8 % is less than 0.9");
    }

    #[test]
    fn a_run_is_told_of_the_parts_that_its_firmware_uses() {
        let sets = ["firmware.cache=64GiB", "txlog='16GiB'", "copy_bandwidth=0"].map(str::to_owned);
        let t = Testbed::load("bytefs-emulator", &sets).expect("valid");
        let said = |mode, host| of_run(&t.drive.clone().map(|d| d.with_mode(mode)), host).join("\n");
        let log = said(Mode::Log, None);
        assert!(log.contains("the TxLog of 16GiB") && !log.contains("the cache"), "{log}");
        let cache = said(Mode::Cache, Some(&t.host));
        assert!(cache.contains("the cache of 64GiB") && !cache.contains("TxLog"), "{cache}");
        assert!(cache.contains("host.costs.copy_bandwidth: 0") && !log.contains("copy_bandwidth"), "{cache}");
    }

    #[test]
    fn peaks_of_the_papers_emulator() {
        let t = Testbed::load("bytefs-emulator", &[]).expect("built in");
        let p = Peaks::of(t.ssd().expect("one"));
        assert_eq!((p.read(), p.write()), ((3.5e9, "link"), (2.5e9, "link")));
        // 64 planes x 4096 B / 60 us.
        assert!((p.planes_program / 4.369e9 - 1.0).abs() < 1e-3, "{p:?}");
        assert!(figures(&t).iter().any(|(name, v)| *name == "capacity" && v.starts_with("32")));
    }
}
