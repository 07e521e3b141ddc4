//! Tests of this module.

use super::*;

#[test]
fn commits_are_the_first_number_of_the_journals_statistics() {
    let text = "21 transactions (2 requested), each up to 5461 blocks\naverage:\n  0ms waiting\n";
    assert_eq!(first_number(text), Some(21));
    assert_eq!(first_number(""), None);
}

#[test]
fn calls_reach_the_directory_and_errors_come_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut c = KernelClient::new(dir.path());
    c.mkdir("/d", 0o755).expect("mkdir");
    let fd = c.open("/d/f", OpenFlags::CREAT | OpenFlags::RDWR, 0o600).expect("open");
    let word = u64::from_le_bytes(*b"01234567");
    assert_eq!(c.pwrite(fd, Payload::Fill { word, len: 5 }, 3).expect("write"), 5);
    let mut out = [9; 16];
    assert_eq!(c.pread(fd, Dest::Bytes(&mut out), 0).expect("read"), 8);
    assert_eq!(&out[..8], b"\0\0\x0034567");
    c.fsync(fd).expect("fsync");
    assert_eq!(c.fstat(fd).expect("stat").attr.size, 8);
    c.close(fd).expect("close");
    assert_eq!(c.close(fd), Err(FsError::BadFd));
    assert_eq!(c.stat("/d/g").expect_err("nothing"), FsError::NoEntry);
    assert_eq!(c.rmdir("/d"), Err(FsError::NotEmpty));
    let names: Vec<_> = c.list("/d").expect("list").into_iter().map(|e| e.name).collect();
    assert!(names.contains(&b"f".to_vec()), "{names:?}");
    c.rename("/d/f", "/h").expect("rename");
    let fd = c.open_unnamed("/d", OpenFlags::RDWR, 0o600).expect("unnamed");
    c.link_open(fd, "/d/named").expect("a name");
    assert_eq!(c.stat("/d/named").expect("stat").ino, c.fstat(fd).expect("fstat").ino);
    c.close(fd).expect("close");
    let value: Vec<u8> = (0..20).collect();
    // Not every file system has attributes of users.
    if c.setxattr("/h", b"user.a", &value, SetXattr::Create) != Err(FsError::NotSupported) {
        assert_eq!(c.getxattr("/h", b"user.a").expect("reads"), value);
        assert_eq!(c.setxattr("/h", b"user.a", b"", SetXattr::Create), Err(FsError::Exists));
        assert!(c.listxattr("/h").expect("lists").contains(&b"user.a".to_vec()));
        c.removexattr("/h", b"user.a").expect("removes");
        assert_eq!(c.getxattr("/h", b"user.a"), Err(FsError::NoAttribute));
    }
    c.unlink("/h").expect("unlink");
    c.sync().expect("sync");
}

#[test]
fn transactions_are_larger_since_linux_6_11() {
    assert_eq!(["5.1.0", "6.1.0-28-amd64", "6.10"].map(journal_share), [JournalShare::Quarter; 3]);
    assert_eq!(["6.11-rc1", "6.18.5", "7.0.1"].map(journal_share), [JournalShare::Third; 3]);
}
