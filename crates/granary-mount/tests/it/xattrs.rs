//! Extended attributes, switched on and off.

use super::rig::{each, each_with};
use granary_mount::Options;
use rustix::fs::{XattrFlags, getxattr, listxattr, removexattr, setxattr};
use rustix::io::Errno;
use std::fs;

#[test]
fn extended_attributes_are_set_read_listed_and_removed() {
    each_with(&Options { xattrs: true, ..Options::default() }, |rig| {
        let f = rig.path("f");
        fs::write(&f, "x").expect("write");
        match setxattr(&f, "user.colour", b"green", XattrFlags::CREATE) {
            Err(Errno::OPNOTSUPP) => return eprintln!("{} has none", rig.fs),
            other => other.expect("setxattr"),
        }
        let mut room = [0; 64];
        let n = getxattr(&f, "user.colour", &mut room[..]).expect("getxattr");
        assert_eq!(&room[..n], b"green");
        assert_eq!(getxattr(&f, "user.colour", &mut room[..2]), Err(Errno::RANGE));
        assert_eq!(setxattr(&f, "user.colour", b"red", XattrFlags::CREATE), Err(Errno::EXIST));
        assert_eq!(setxattr(&f, "user.size", b"1", XattrFlags::REPLACE), Err(Errno::NODATA));
        let both = XattrFlags::CREATE | XattrFlags::REPLACE;
        assert_eq!(setxattr(&f, "user.colour", b"red", both), Err(Errno::EXIST));
        assert_eq!(setxattr(&f, "user.size", b"1", both), Err(Errno::NODATA));
        setxattr(&f, "user.size", b"", XattrFlags::empty()).expect("an empty value");
        let n = listxattr(&f, &mut room[..]).expect("listxattr");
        let mut names: Vec<&[u8]> = room[..n].split(|&b| b == 0).filter(|n| !n.is_empty()).collect();
        names.sort_unstable();
        assert_eq!(names, [&b"user.colour"[..], b"user.size"]);
        removexattr(&f, "user.colour").expect("removexattr");
        assert_eq!(getxattr(&f, "user.colour", &mut room[..]), Err(Errno::NODATA));
        assert_eq!(removexattr(&f, "user.colour"), Err(Errno::NODATA));
        // A list is taken away whether there is one or not, as by the kernel's file systems.
        for (at, name) in
            [(&f, "system.posix_acl_access"), (&rig.root().to_owned(), "system.posix_acl_default")]
        {
            assert_eq!(removexattr(at, name), Ok(()), "{} {name}", rig.fs);
            assert_eq!(
                setxattr(at, name, &2u32.to_le_bytes(), XattrFlags::empty()),
                Ok(()),
                "{} {name}",
                rig.fs
            );
        }
        fs::write(&f, "written all the same").expect("write");
    });
}

#[test]
fn switched_off_they_are_not_supported() {
    each(|rig| {
        fs::write(rig.path("f"), "x").expect("write");
        let set = setxattr(rig.path("f"), "user.a", b"b", XattrFlags::empty());
        assert_eq!(set, Err(Errno::OPNOTSUPP));
    });
}
