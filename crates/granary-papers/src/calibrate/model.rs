//! Our side: granary-ext4 under a load in virtual time.

use super::{Edge, Load, SETS, Traffic};
use granary_bench::memory;
use granary_device::{Drive, LinkTraffic, Port};
use granary_ext4::{DataMode, JournalShare, JournalStats, MkfsOptions, MountOptions};
use granary_fs::Cred;
use granary_lab::LabError;
use granary_sim::{World, WorldConfig, now, sleep, sleep_until};
use granary_testbed::Testbed;
use granary_units::{Bytes, Nanos};
use granary_vfs::{Process, Vfs};
use std::sync::Arc;

/// Traffic of granary-ext4 in mode `data` under `load` on a drive of `size`, with timers out of the way.
/// `share` is that of [`MountOptions::max_transaction`]; [`super::kernel::journal_share`] gives the kernel's.
///
/// # Errors
/// Of the run.
pub fn model(
    load: &Load,
    seed: u64,
    size: Bytes,
    data: DataMode,
    share: JournalShare,
) -> Result<Traffic, LabError> {
    let testbed = Testbed::load("bytefs-emulator", &SETS.map(str::to_owned))?;
    let host = testbed.host.clone();
    let config = WorldConfig { host_cores: host.cores, costs: host.costs, seed, ..WorldConfig::default() };
    let load = load.clone();
    World::new(config)
        .run(move || measure(&load, seed, size, data, share, &testbed))
        .map_err(|stop| LabError::run("ext4", "run", stop))?
}

fn measure(
    load: &Load,
    seed: u64,
    size: Bytes,
    data: DataMode,
    share: JournalShare,
    testbed: &Testbed,
) -> Result<Traffic, LabError> {
    let failed = |stage: &'static str| LabError::fs("ext4", stage);
    let mut config = testbed.ssd()?.clone();
    config.flash = config.flash.with_capacity(size);
    let drive: Arc<dyn Drive> = Arc::new(memory::ssd(&testbed.name, &config, memory::Use::NEW)?);
    granary_ext4::mkfs(&Port::new(drive.clone()), &MkfsOptions::default()).map_err(failed("mkfs"))?;
    let options = MountOptions {
        commit_interval: COMMIT,
        dirty_expire: COMMIT,
        data,
        max_transaction: share,
        ..MountOptions::default()
    };
    let fs = granary_ext4::mount(Port::new(drive.clone()), &options).map_err(failed("mount"))?;
    let vfs = Vfs::mount(fs.clone(), testbed.host.vfs).map_err(failed("mount"))?;
    let clients = |_: &str| Process::new(vfs.clone(), Cred::ROOT);
    let look = || -> (LinkTraffic, JournalStats) { (drive.traffic(), fs.journal_stats()) };
    let mut edges = [None, None];
    load.run(clients, seed, &sleep, &mut |edge| {
        // Work under way in the drive belongs to the phase before.
        sleep_until(drive.settle(now()).map_err(|e| LabError::run("ext4", "run", e))?);
        edges[edge as usize] = Some(look());
        Ok(())
    })?;
    vfs.unmount().map_err(failed("unmount"))?;
    let [Some((from, before)), Some((to, after))] = edges else { return Ok(Traffic::default()) };
    let moved = to.since(&from);
    Ok(Traffic {
        written: moved.block_write,
        read: moved.block_read,
        unknown: 0,
        flushes: after.flushes + after.fua_writes - before.flushes - before.fua_writes,
        commits: after.commits - before.commits,
    })
}

/// Longer than any run: `mount -o commit=` of the kernel's side is as long ([`super::kernel::MOUNT`]).
const COMMIT: Nanos = Nanos::from_secs(900);
const _: () = assert!(Edge::Start as usize == 0 && Edge::End as usize == 1);

#[cfg(test)]
mod tests {
    use super::*;
    use granary_device::Structure;

    /// Each record of a log in reserved space marks its blocks: inode, descriptor and commit block; the
    /// reservation before them is one commit more.
    #[test]
    fn a_databases_log_commits_with_each_record() {
        let load = Load::new("wal", 0.0002).expect("a load");
        let t = model(&load, 1, Bytes::gib(1), DataMode::Ordered, JournalShare::Third).expect("runs");
        assert_eq!(t.commits, 21);
        // Each commit waits twice: before its last block, and for it. The sync at the end has nothing to
        // commit, and sends one (`ext4_sync_fs`).
        assert_eq!(t.flushes, 43);
        let journal = t.written[Structure::Journal as usize] / 4096;
        assert!((20 * 3..20 * 3 + 12).contains(&journal), "{journal} blocks in the journal");
        assert!(t.written[Structure::Data as usize] >= 20 * 4096);
    }
}
