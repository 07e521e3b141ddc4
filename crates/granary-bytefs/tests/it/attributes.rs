//! Extended attributes in blocks that were somebody's before: what is on media is what was set.

use crate::common::client::Client;
use crate::common::{assert_clean, format, in_world, open, strict};
use granary_bytefs::MountOptions;
use granary_device::{Drive, Port, Structure};
use granary_fs::{Attributes, Call, Life, Time};
use granary_sim::rng::Stream;
use granary_units::{Lpa, PAGE_SIZE, Page};
use std::collections::BTreeMap;
use std::sync::Arc;

/// No block is zero before it is used.
fn garbage(drive: &Arc<dyn Drive>) {
    let port = Port::new(drive.clone());
    let page = Page::from_bytes(&[0xa5; PAGE_SIZE]);
    for lpa in 0..drive.info().pages {
        port.write(Lpa(lpa), std::slice::from_ref(&page), Structure::Data).expect("writes");
    }
}

/// Values of zeros and of other bytes that grow, shrink, come and go; a mount every now and then reads the
/// media.
#[test]
fn attributes_in_used_blocks_are_what_was_set() {
    for seed in 0..6 {
        in_world(move || {
            let (drive, mut s) = (strict(8), Stream::new(seed, "attributes"));
            garbage(&drive);
            format(&drive);
            let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
            let mut fs = open(&drive, &MountOptions::default());
            let c = Client::new(fs.clone());
            c.file(&c.root(), b"f").expect("made");
            for step in 0..150 {
                let c = Client::new(fs.clone());
                let f = c.lookup(&c.root(), b"f").expect("readable").expect("there");
                let call = Call::kernel(Time(step));
                let name = [&b"user.a"[..], b"user.b", b"user.c"][s.below(3) as usize].to_vec();
                if s.chance(0.25) {
                    fs.setxattr(&call, &f, &name, None).expect("removed");
                    model.remove(&name);
                } else {
                    let longest = if s.chance(0.2) { 9000 } else { 900 };
                    let value = vec![s.below(2) as u8; s.below(longest) as usize];
                    fs.setxattr(&call, &f, &name, Some(&value)).expect("set");
                    model.insert(name, value);
                }
                if s.chance(0.3) {
                    fs.sync(&Call::offline()).expect("synced");
                    assert_clean(&fs);
                    drop((c, f));
                    fs.unmount(&Call::offline()).expect("unmounted");
                    fs = open(&drive, &MountOptions::default());
                    let c = Client::new(fs.clone());
                    let f = c.lookup(&c.root(), b"f").expect("readable").expect("there");
                    for (name, value) in &model {
                        let is = fs.getxattr(&Call::offline(), &f, name).expect("readable");
                        assert!(is.as_ref() == Some(value), "seed {seed}, step {step}");
                    }
                }
            }
        });
    }
}
