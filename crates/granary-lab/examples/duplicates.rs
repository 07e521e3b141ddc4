//! How much of the page cache duplicates take (ByteFS section 4.6: 16 % on average over its workloads): runs
//! workloads on ByteFS with `tracking = "xor"` and samples the cache every 100 us of virtual time.
//!
//! `cargo run --release -p granary-lab --example duplicates -- varmail fileserver oltp`

use granary_bytefs::{MkfsOptions, MountOptions, mkfs, mount};
use granary_device::Port;
use granary_fs::Caller;
use granary_lab::experiment::Processes;
use granary_mssd::{Mode, Mssd};
use granary_sim::{Daemon, Signal, World, WorldConfig};
use granary_testbed::Testbed;
use granary_units::Nanos;
use granary_vfs::{Tracking, Vfs, VfsConfig};
use granary_workload::Workload;
use granary_workload::run::{Run, RunOptions};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Average and largest number of duplicates, and pages in the cache at the end.
fn measure(name: &str, scale: f64) -> Result<(f64, u64, u64), Box<dyn std::error::Error>> {
    let testbed = Testbed::load("bytefs-emulator", &[])?;
    let mut workload = Workload::from_builtin(name, &[])?;
    workload.scale(scale)?;
    let config =
        WorldConfig { host_cores: testbed.host.cores, costs: testbed.host.costs, ..WorldConfig::default() };
    let result = World::new(config).run(move || -> Result<_, String> {
        let text = |e: &dyn std::fmt::Display| e.to_string();
        let drive = Arc::new(
            Mssd::new(&testbed.ssd().map_err(|e| text(&e))?.clone().with_mode(Mode::Log))
                .map_err(|e| text(&e))?,
        );
        let port = Port::new(drive);
        mkfs(&port, &MkfsOptions::default()).map_err(|e| text(&e))?;
        let fs = mount(port, &MountOptions::default()).map_err(|e| text(&e))?;
        let config = VfsConfig { tracking: Tracking::Xor, ..testbed.host.vfs };
        let vfs = Vfs::mount(fs, config).map_err(|e| text(&e))?;
        let mut run = Run::new(&workload, Processes::new(vfs.clone()), RunOptions::default());
        run.setup().map_err(|e| text(&e))?;
        vfs.sync(&Caller::KERNEL).map_err(|e| text(&e))?;
        let seen = Arc::new([const { AtomicU64::new(0) }; 3]);
        let (its, cache) = (Arc::clone(&seen), vfs.clone());
        let sampler = Daemon::start("sampler", move |stop| {
            while stop.pause(Nanos::from_micros(100)) != Signal::Stop {
                let now = cache.cache_stats().duplicates;
                its[0].fetch_add(now, Relaxed);
                its[1].fetch_add(1, Relaxed);
                its[2].fetch_max(now, Relaxed);
            }
        });
        run.measure().map_err(|e| text(&e))?;
        sampler.stop();
        drop(run);
        let pages = vfs.cache_stats().pages;
        vfs.unmount().map_err(|e| text(&e))?;
        let [sum, samples, most] = [0, 1, 2].map(|n: usize| seen[n].load(Relaxed));
        Ok((sum as f64 / samples.max(1) as f64, most, pages))
    });
    Ok(result??)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for name in std::env::args().skip(1) {
        let (average, most, pages) = measure(&name, 0.02)?;
        let share = |n: f64| 100.0 * n / pages.max(1) as f64;
        println!(
            "{name}: {average:.0} duplicates on average ({:.2} % of {pages} pages), {most} at most ({:.2} %)",
            share(average),
            share(most as f64)
        );
    }
    Ok(())
}
