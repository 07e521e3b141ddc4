//! Space, size and number: full file systems, large directories, large files, reservations, extended
//! attributes.

use crate::common::{Mounted, Subject};
use granary_fs::Allocate;
use granary_orchfs::{MountOptions, Partition};
use granary_suite::suite::{create, drive, fill, on_pair, run};
use granary_units::Bytes;
use granary_vfs::Posix;

pub fn phfs() -> Subject {
    Subject {
        mount: MountOptions { partition: Partition::Phfs, ..MountOptions::default() },
        ..Subject::default()
    }
}

/// Space that statfs offers, of both devices together, can be reserved and then written, or written at once.
/// Half a mebibyte is left for the nodes that name it.
#[test]
fn what_statfs_offers_can_be_had() {
    for (reserve, is_phfs) in [(false, false), (true, false), (false, true), (true, true)] {
        on_pair(|| {
            run(move || {
                let subject = if is_phfs { phfs() } else { Subject::default() };
                let m = Mounted::fresh(&subject, &drive(Bytes::mib(48)));
                let mut p = m.process();
                let fd = create(&mut p, "/f");
                let offered = p.statfs().expect("statfs").available_blocks() * 4096 - (512 << 10);
                if reserve {
                    p.fallocate(fd, Allocate::Reserve { keep_size: false }, 0, offered)
                        .expect("it is offered");
                }
                let mut at = 0;
                while at < offered {
                    let len = (offered - at).min(1 << 20) as usize;
                    at += p.pwrite(fd, fill(7, len), at).unwrap_or_else(|e| panic!("{at} of {offered}: {e}"))
                        as u64;
                }
                m.check();
            });
        });
    }
}
