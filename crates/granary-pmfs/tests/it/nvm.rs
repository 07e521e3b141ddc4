//! The same on an NVM DIMM, which a power failure may leave with any words of what no fence covered.

use crate::common::Subject;
use granary_device::Structure;
use granary_pmfs::MkfsOptions;
use granary_suite::model::Mix;
use granary_suite::suite::{self, Subject as _, on_nvm};
use granary_units::{ByteAddr, Bytes, TxId};

fn busy() -> Subject {
    Subject {
        mkfs: MkfsOptions { journal: Some(Bytes::kib(64)), ..MkfsOptions::default() },
        ..Subject::default()
    }
}

#[test]
fn calls_behave_as_the_reference() {
    on_nvm(|| {
        suite::calls_behave_as_the_reference(&busy(), 600..603, suite::tiny_caches(), Mix::default(), 3_000);
    });
}

/// The journal of a byte window relies on whole lines.
#[test]
fn a_file_system_of_a_byte_window_is_refused() {
    on_nvm(|| {
        suite::run(|| {
            let d = suite::drive(Bytes::mib(32));
            busy().mkfs(&suite::port(&d)).expect("mkfs");
            let mut line = [0; 64];
            suite::port(&d).load(ByteAddr(0), &mut line, Structure::Superblock).expect("loads");
            line[8] = 1;
            let sum = crc32c::crc32c(&line[..60]);
            line[60..].copy_from_slice(&sum.to_le_bytes());
            suite::port(&d).store(ByteAddr(0), &line, TxId::NONE, Structure::Superblock).expect("stores");
            let said = busy().mount(suite::port(&d)).err().expect("refused").to_string();
            assert!(said.contains("whole lines"), "{said}");
        });
    });
}

#[test]
fn concurrent_calls_have_a_serial_order() {
    on_nvm(|| suite::concurrent_calls_have_a_serial_order(&busy()));
}

#[test]
fn threads_on_the_wall_clock_leave_a_sound_file_system() {
    on_nvm(|| suite::threads_on_the_wall_clock_leave_a_sound_file_system(&busy()));
}

#[test]
fn what_was_fsynced_survives_power_failures_at_any_instant() {
    let all = on_nvm(|| suite::what_was_fsynced_survives_power_failures(&Subject::default(), 2));
    assert!(all.iter().any(|r| !r.clean && r.inodes > 0), "nothing was recovered: {all:?}");
}

#[test]
fn a_full_file_system_loses_power_while_it_is_emptied() {
    on_nvm(|| suite::a_full_file_system_loses_power_while_it_is_emptied(&Subject::default(), 3));
}

#[test]
fn a_full_file_system_can_be_emptied_and_filled_again() {
    on_nvm(|| suite::a_full_file_system_can_be_emptied_and_filled_again(&Subject::default()));
}
