//! Two clients open a file that neither has made, at once: one of them makes it, and there is one file to be
//! found.

use crate::targets::by_name;
use granary_crash::{Clients, Effort, Explorer, Load};
use granary_fs::FsError;
use granary_sim::rng::Stream;
use granary_units::Payload;
use granary_vfs::{OpenFlags, Posix};

struct Raced;

impl Load for Raced {
    fn name(&self) -> &str {
        "raced"
    }

    fn run(&self, clients: &Clients, round: u32, _random: &mut Stream) -> Result<(), String> {
        let tasks = [0, 1, 2].map(|id| {
            let mut posix = clients.client();
            granary_sim::spawn("raced", move || (0..12).try_for_each(|n| open(&mut posix, round, (id, n))))
        });
        tasks.into_iter().try_for_each(|task| task.join()).map_err(|e| e.to_string())
    }

    fn rounds(&self) -> u32 {
        1
    }
}

fn open(posix: &mut impl Posix, round: u32, (id, n): (u32, u32)) -> Result<(), FsError> {
    let fd = posix.open(format!("/r{round}.{n}"), OpenFlags::RDWR | OpenFlags::CREAT, 0o644)?;
    posix.pwrite(fd, Payload::Fill { word: 1 + id as u64, len: 3_000 }, u64::from(id) * 4096)?;
    if n % 3 == id {
        posix.fsync(fd)?;
    }
    posix.close(fd)
}

#[test]
fn a_file_that_two_clients_make_at_once_is_one_file() {
    for fs in ["ext4", "f2fs", "nova"] {
        let explorer =
            Explorer::new(by_name(fs).expect("a target"), std::sync::Arc::new(Raced)).expect("sound");
        for seed in 1..4 {
            let report = explorer.run(seed, &Effort::default());
            assert!(report.failures.is_empty() && report.points > 0, "{fs}: {report}");
        }
    }
}
