//! Power failures at random instants: acknowledged changes are there, everything is sound, work goes on. The
//! large counts are the crash explorer's.

use crate::common::Subject;
use crate::model::busy;
use granary_sim::power_fail;
use granary_suite::suite::{self, on_nvm};
use granary_units::{Bytes, Payload};
use granary_vfs::{OpenFlags, Posix};

/// Nothing is fsynced: calls that returned are durable (DevFS section 3.3).
#[test]
fn what_returned_is_there_after_a_power_failure_without_any_fsync() {
    for capacitor in [true, false] {
        on_nvm(|| {
            let before = |m: &suite::Mounted<Subject>| {
                let mut p = m.process();
                p.mkdir("/d", 0o755).expect("makes");
                for n in 0..40u64 {
                    let fd = p
                        .open(format!("/d/f{n}"), OpenFlags::RDWR | OpenFlags::CREAT, 0o600)
                        .expect("creates");
                    p.pwrite(fd, Payload::Fill { word: n + 1, len: 5000 }, n * 100).expect("writes");
                    p.close(fd).expect("closes");
                }
                p.rename("/d/f0", "/d/g").expect("renames");
                p.unlink("/d/f1").expect("removes");
                p.truncate("/d/f2", 1000).expect("cuts");
                power_fail();
            };
            let after = |m: &suite::Mounted<Subject>| {
                let mut p = m.process();
                assert_eq!(p.stat("/d/g").expect("there").attr.size, 5000);
                assert!(p.stat("/d/f0").is_err() && p.stat("/d/f1").is_err());
                assert_eq!(p.stat("/d/f2").expect("there").attr.size, 1000);
                for n in 3..40u64 {
                    assert_eq!(p.stat(format!("/d/f{n}")).expect("there").attr.size, 5000 + n * 100);
                }
            };
            suite::fail_and_look(&busy(capacitor), suite::drive(Bytes::mib(64)), None, before, after);
        });
    }
}
