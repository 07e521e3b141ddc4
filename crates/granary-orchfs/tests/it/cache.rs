//! Pages of the SSD in host memory are never older than the SSD's.

use crate::common::{Mounted, Subject, migrating};
use granary_orchfs::MountOptions;
use granary_sim::rng::Stream;
use granary_sim::spawn;
use granary_suite::suite::{create, drive, fill, on_pair, run_jittered};
use granary_units::{Bytes, Dest};
use granary_vfs::Posix;

/// A writer counts the words of pages up, by whole blocks and by pages, while readers look, blocks migrate,
/// and other files take what is freed: a reader never sees less than he has seen.
#[test]
fn no_reader_sees_an_older_block() {
    for seed in 0..3 {
        on_pair(|| {
            run_jittered(seed, move || {
                let read_cache = Some(Bytes::kib(256));
                let mount = MountOptions { read_cache, ..migrating().mount };
                let m = Mounted::fresh(&Subject { mount, ..migrating() }, &drive(Bytes::mib(24)));
                let mut p = m.process();
                let fd = create(&mut p, "/f");
                p.pwrite(fd, fill(0, 4 * 32_768), 0).expect("write");
                let readers: Vec<_> = (0..3u64)
                    .map(|reader| {
                        let mut p = m.process();
                        spawn("reader", move || {
                            let fd = create(&mut p, "/f");
                            let mut random = Stream::new(seed * 10 + reader, "reader");
                            let mut seen = [0u64; 32];
                            for _ in 0..300 {
                                let page = random.below(32);
                                let mut word = [0; 8];
                                p.pread(fd, Dest::Bytes(&mut word), page * 4096 + 8 * random.below(512))
                                    .expect("read");
                                let word = u64::from_le_bytes(word);
                                assert!(
                                    word >= seen[page as usize],
                                    "page {page}: {word} after {}",
                                    seen[page as usize]
                                );
                                seen[page as usize] = word;
                            }
                        })
                    })
                    .collect();
                let mut random = Stream::new(seed, "writer");
                for i in 1..120u64 {
                    let block = random.below(4) * 32_768;
                    let (at, len) = match random.chance(0.5) {
                        true => (block, 32_768),
                        false => (block + 4096 * random.below(8), 4096),
                    };
                    p.pwrite(fd, fill(i, len), at).expect("write");
                    if i % 10 == 0 {
                        let other = create(&mut p, "/other");
                        p.pwrite(other, fill(1, 65_536), 0).expect("write");
                        p.close(other).expect("close");
                        p.unlink("/other").expect("unlink");
                    }
                }
                readers.into_iter().for_each(|reader| reader.join());
                m.check();
            });
        });
    }
}
