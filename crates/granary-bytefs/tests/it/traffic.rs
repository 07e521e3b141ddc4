//! Bytes that an operation sends over the host link (ByteFS sections 4.5 and 4.6).

use crate::common::client::Client;
use crate::common::{format, in_world, open, small_mssd};
use granary_bytefs::MountOptions;
use granary_device::{LinkTraffic, Structure};
use granary_fs::{Call, Data, Life};

/// Bytes written by byte for inode, dentry, bitmap, data, and by block for data; nothing else may have moved.
fn written(t: &LinkTraffic) -> [u64; 5] {
    use Structure::{Bitmap, Data, Dentry, Inode};
    let byte = [Inode, Dentry, Bitmap, Data].map(|s| t.byte_write[s as usize]);
    let block = t.block_write[Data as usize];
    assert_eq!(t.written(), byte.iter().sum::<u64>() + block, "{t:?}");
    // The client has no page cache and reads what it partly overwrites; metadata are in memory.
    assert_eq!(t.read(), t.block_read[Data as usize], "{t:?}");
    [byte[0], byte[1], byte[2], byte[3], block]
}

#[test]
fn operations_write_their_lines_and_nothing_else() {
    in_world(|| {
        let drive = small_mssd(64);
        format(&drive);
        let fs = open(&drive, &MountOptions::default());
        let c = Client::new(fs.clone());
        let root = c.root();
        // The directory has its first block, this CPU its groups.
        let warm = c.file(&root, b"warm").expect("created");
        c.write(&warm, 0, &[1; 4096]).expect("written");
        fs.sync(&Call::offline()).expect("synced");
        let mut before = drive.traffic();
        let mut cost = || {
            let now = drive.traffic();
            let t = now.since(&before);
            before = now;
            written(&t)
        };
        let f = c.file(&root, b"a file").expect("created");
        assert_eq!(
            cost(),
            [64 + 128, 64, 0, 0, 0],
            "create: directory, inode, name; the inode bitmap comes with the COMMIT"
        );
        c.write(&f, 0, &[2; 4096]).expect("written");
        fs.fsync(&Call::offline(), &f, false).expect("synced");
        assert_eq!(
            cost(),
            [64, 0, 128, 0, 4096],
            "4 KiB appended and synced: one inode line, a line of each bitmap"
        );
        fs.fsync(&Call::offline(), &f, false).expect("synced");
        assert_eq!(cost(), [0; 5], "nothing to sync");
        c.write(&f, 130, &[3; 100]).expect("written");
        fs.fsync(&Call::offline(), &f, true).expect("synced");
        assert_eq!(cost(), [0, 0, 0, 128, 0], "100 bytes overwritten in two lines, fdatasync");
        fs.fsync(&Call::offline(), &f, false).expect("synced");
        assert_eq!(cost(), [64, 0, 0, 0, 0], "fsync writes the times");
        c.write(&f, 0, &[4; 7 * 64]).expect("written");
        assert_eq!(cost(), [0, 0, 0, 448, 0], "7 lines of 64: by byte");
        c.write(&f, 0, &[5; 8 * 64]).expect("written");
        assert_eq!(cost(), [0, 0, 0, 0, 4096], "8 lines of 64: by block");
        fs.fsync(&Call::offline(), &f, false).expect("synced");
        cost();
        c.rename(&root, b"a file", &root, b"b file", false).expect("renamed");
        assert_eq!(cost(), [128, 64, 0, 0, 0], "rename in place: directory, inode, name");
        c.unlink(&root, b"b file", false).expect("removed");
        assert_eq!(cost(), [64, 64, 0, 0, 0], "unlink: directory, name");
        assert_eq!(fs.stats().transactions, fs.stats().committed + 2, "only syncs commit");
        fs.sync(&Call::offline()).expect("synced");
        assert_eq!(cost(), [0, 0, 128, 0, 0], "both bitmaps");
        let files: Vec<_> =
            (0..20).map(|n| c.file(&root, format!("{n}").as_bytes()).expect("created")).collect();
        cost();
        fs.sync(&Call::offline()).expect("synced");
        assert_eq!(cost(), [0, 0, 64, 0, 0], "a group changes a bitmap line once: {} inodes", files.len());
    });
}

#[test]
fn a_group_of_transactions_shares_one_verify() {
    in_world(|| {
        let drive = small_mssd(64);
        format(&drive);
        let fs = open(&drive, &MountOptions { commit_batch: 1000, ..MountOptions::default() });
        let c = Client::new(fs.clone());
        for n in 0..100 {
            c.file(&c.root(), format!("{n}").as_bytes()).expect("created");
        }
        let before = fs.stats();
        fs.sync(&Call::offline()).expect("synced");
        let after = fs.stats();
        assert_eq!((after.committed - before.committed, after.groups - before.groups), (100, 1));
    });
}
