//! Properties of the flash array and the FTL.

mod configs;
mod dies;
mod faults;
mod gc;
mod grow;
mod idle;
mod model;
mod placement;
mod power;
mod remap;
mod timing;
mod waf;

use granary_flash::{Cause, Ftl, FtlConfig, Geometry, NandTiming};
use granary_units::{Bytes, Lpa, Nanos, Page};

/// ByteFS Table 4 (40/60 us); the erase time and the bus are the tests' own.
fn timing() -> NandTiming {
    NandTiming {
        read: Nanos::from_micros(40),
        program: Nanos::from_micros(60),
        erase: Nanos::from_millis(2),
        channel_bandwidth: Bytes(400_000_000),
    }
}

fn geometry(channels: u32, ways: u32, blocks_per_plane: u32, pages_per_block: u32) -> Geometry {
    Geometry { channels, ways, dies: 1, planes: 1, blocks_per_plane, pages_per_block }
}

/// The smallest drive that works: 2 channels of 2 ways, 16 blocks of 8 pages each; gc runs all the time.
fn tiny() -> FtlConfig {
    let mut c = FtlConfig::new(geometry(2, 2, 16, 8), timing());
    (c.gc_start, c.gc_stop) = (2, 3);
    c.validate().expect("the tiny drive works");
    c
}

fn lpas(ftl: &Ftl) -> impl Iterator<Item = Lpa> + use<> {
    let pages = ftl.capacity_pages();
    (0..pages).map(Lpa)
}

/// Writes every logical page once, in order, all asked at time 0; returns when the last is done.
fn fill(ftl: &mut Ftl) -> Nanos {
    lpas(ftl).map(|l| write(ftl, Nanos::ZERO, l, l.0)).max().expect("pages")
}

fn write(ftl: &mut Ftl, now: Nanos, l: Lpa, word: u64) -> Nanos {
    ftl.write(now, l, Page::word(word), Cause::Host).expect("write")
}

#[track_caller]
fn check(ftl: &Ftl) {
    if let Err(lines) = ftl.check() {
        panic!("{}", lines.join("\n"));
    }
}

/// Content of every logical page, as the host sees it.
fn content(ftl: &Ftl) -> Vec<Page> {
    lpas(ftl).map(|l| ftl.peek(l).expect("peek")).collect()
}
