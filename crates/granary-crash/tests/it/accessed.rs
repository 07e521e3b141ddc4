//! A time of access that was set is not replaced by an older one.

use granary_crash::{Clients, Effort, Explorer, Load};
use granary_fs::Time;
use granary_sim::rng::Stream;
use granary_units::{Dest, Nanos, Payload};
use granary_vfs::{OpenFlags, Posix, SetTime};
use std::sync::Arc;

/// A file is read, its time of access is set back, it is read again.
struct SetBack;

impl Load for SetBack {
    fn name(&self) -> &str {
        "set back"
    }

    fn rounds(&self) -> u32 {
        1
    }

    fn run(&self, clients: &Clients, _round: u32, _random: &mut Stream) -> Result<(), String> {
        let mut posix = clients.client();
        let mut all = || -> granary_fs::Result<()> {
            let fd = posix.open("/f", OpenFlags::RDWR | OpenFlags::CREAT, 0o644)?;
            posix.pwrite(fd, Payload::Fill { word: 1, len: 100 }, 0)?;
            for _ in 0..4 {
                granary_sim::sleep(Nanos(1_000));
                posix.pread(fd, Dest::Bytes(&mut [0; 10]), 0)?;
                posix.utimens("/f", SetTime::At(Time(5)), SetTime::Omit)?;
            }
            posix.close(fd)
        };
        let done = all().map_err(|e| e.to_string());
        posix.into_inner().exit();
        done
    }
}

#[test]
fn a_time_of_access_that_was_set_is_not_replaced_by_an_older_one() {
    for fs in ["nova@nvm", "pmfs@nvm"] {
        let target = crate::targets::by_name(fs).expect("a target");
        let explorer = Explorer::new(target, Arc::new(SetBack)).expect("sound").deep(1);
        let effort = Effort { linear: true, draws: 4, ..Effort::default() };
        let report = explorer.run(1, &effort);
        assert!(report.points > 100 && report.failures.is_empty(), "{fs}: {report}");
    }
}
