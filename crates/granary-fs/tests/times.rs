//! Which times an event moves: one rule for all file systems.

use granary_fs::{Allocate, Attr, FileKind, SetAttr, Time};

const OLD: Time = Time(1);
const NOW: Time = Time(2);

/// Whether access, content and attributes have another time after `event`.
fn moved<T>(event: impl FnOnce(&mut Attr) -> T) -> [bool; 3] {
    let after = Attr::new(FileKind::File, 0o644, OLD).with(event);
    [after.atime, after.mtime, after.ctime].map(|time| time == NOW)
}

#[test]
fn an_event_moves_its_times_and_no_others() {
    let content = [false, true, true];
    let attributes = [false, false, true];
    assert_eq!(moved(|a| a.accessed(NOW)), [true, false, false]);
    assert_eq!(moved(|a| a.modified(NOW)), content);
    assert_eq!(moved(|a| a.wrote(10, NOW)), content);
    assert_eq!(moved(|a| a.allocated(Allocate::PunchHole, 10, NOW)), content);
    assert_eq!(moved(|a| a.set(&SetAttr { size: Some(0), ..SetAttr::default() }, NOW)), content);
    assert_eq!(moved(|a| a.set(&SetAttr { mode: Some(0), ..SetAttr::default() }, NOW)), attributes);
    assert_eq!(moved(|a| a.changed(NOW)), attributes);
    assert_eq!(moved(|a| a.linked(NOW)), attributes);
    assert_eq!(moved(|a| a.unlinked(NOW)), attributes);
}

#[test]
fn a_directory_loses_its_own_link_with_its_name() {
    let mut dir = Attr::new(FileKind::Dir, 0o755, OLD);
    assert_eq!((dir.nlink, dir.unlinked(NOW)), (2, 0));
}
