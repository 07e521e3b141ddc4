//! Space, size and number: full file systems, large directories, large files, reservations, extended attributes.

use crate::common::{Mounted, Subject};
use granary_fs::Allocate;
use granary_orchfs::{DataAtomicity, MountOptions, Partition};
use granary_suite::suite::{self, create, drive, fill, on_pair, run};
use granary_units::Bytes;
use granary_vfs::Posix;

fn phfs() -> Subject {
    Subject {
        mount: MountOptions { partition: Partition::Phfs, ..MountOptions::default() },
        ..Subject::default()
    }
}

#[test]
fn a_full_file_system_can_be_emptied_and_filled_again() {
    on_pair(|| suite::a_full_file_system_can_be_emptied_and_filled_again(&Subject::default()));
}

#[test]
fn a_full_file_system_survives_a_crowd() {
    on_pair(|| suite::a_full_file_system_survives_a_crowd(&Subject::default()));
}

#[test]
fn every_name_of_a_full_file_system_can_be_taken_away() {
    on_pair(|| suite::every_name_of_a_full_file_system_can_be_taken_away(&Subject::default()));
}

#[test]
fn attributes_of_a_full_file_system_can_be_changed() {
    on_pair(|| suite::attributes_of_a_full_file_system_can_be_changed(&Subject::default()));
}

#[test]
fn a_large_directory_keeps_every_name() {
    on_pair(|| suite::a_large_directory_keeps_every_name(&Subject::default(), 5_000, 300_000));
}

#[test]
fn listing_survives_changes_in_between() {
    on_pair(|| suite::listing_survives_changes_in_between(&Subject::default()));
}

#[test]
fn a_large_sparse_file_keeps_every_piece() {
    on_pair(|| suite::a_large_sparse_file_keeps_every_piece(&Subject::default()));
}

#[test]
fn the_largest_file_is_whole_to_its_last_byte() {
    on_pair(|| suite::the_largest_file_is_whole_to_its_last_byte(&Subject::default()));
}

#[test]
fn reserved_blocks_read_as_zeros() {
    on_pair(|| suite::reserved_blocks_read_as_zeros(&Subject::default()));
}

#[test]
fn reserving_too_much_changes_nothing() {
    on_pair(|| suite::reserving_too_much_changes_nothing(&Subject::default()));
}

#[test]
fn a_refused_hole_changes_nothing() {
    for data_atomicity in [DataAtomicity::None, DataAtomicity::Undo, DataAtomicity::Redo] {
        for partition in [Partition::Orchfs, Partition::Phfs] {
            let mount = MountOptions { data_atomicity, partition, ..MountOptions::default() };
            on_pair(|| suite::a_refused_hole_changes_nothing(&Subject { mount, ..Subject::default() }));
        }
    }
}

#[test]
fn punched_and_zeroed_ranges_read_as_zeros() {
    on_pair(|| suite::punched_and_zeroed_ranges_read_as_zeros(&Subject::default()));
}

#[test]
fn attributes_up_to_the_limit_come_back() {
    on_pair(|| suite::attributes_up_to_the_limit_come_back(&Subject::default()));
}

/// What statfs offers, of both devices together, can be reserved and then written, or written at once; half a mebibyte is left for
/// what names it.
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

#[test]
fn no_space_is_said_only_where_statfs_says_it() {
    for subject in [Subject::default(), phfs()] {
        on_pair(|| suite::no_space_is_said_only_where_statfs_says_it(&subject));
    }
}

#[test]
fn a_refused_access_list_changes_nothing() {
    on_pair(|| suite::a_refused_access_list_changes_nothing(&Subject::default()));
}
