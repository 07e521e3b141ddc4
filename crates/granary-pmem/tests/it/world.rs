//! The DIMM behind a port in virtual time: tasks are cores, and a fence holds the core that makes it.

use crate::rig::*;
use granary_device::{Drive, Port, Streamed};
use granary_pmem::{Dimm, DimmConfig};
use granary_sim::{World, WorldConfig, now, spawn};
use granary_units::{ByteAddr, Lpa, Nanos, Page, TxId};
use std::sync::Arc;

fn world<T: 'static>(cores: usize, main: impl FnOnce() -> T + 'static) -> T {
    World::new(WorldConfig { host_cores: cores, ..WorldConfig::default() }).run(main).expect("runs")
}

#[test]
fn a_store_is_durable_after_sixty_two_nanoseconds_and_a_load_takes_three_hundred_and_five() {
    world(2, || {
        let port = Port::new(Arc::new(dimm(&small(DimmConfig::optane_dcpmm(), 16))));
        port.store(ByteAddr(0), &[1; 64], TxId::NONE, WHAT).expect("stores");
        port.verify().expect("fences");
        assert_eq!(now(), Nanos(62));
        port.load(ByteAddr(8192), &mut [0; 64], WHAT).expect("loads");
        assert_eq!(now(), Nanos(62 + 305));
    });
}

#[test]
fn tasks_on_cores_of_their_own_count_as_writers_and_those_on_one_core_do_not() {
    let bandwidth = |cores: usize| {
        world(cores, || {
            let d: Arc<Dimm> = Arc::new(dimm(&small(DimmConfig::optane_dcpmm(), 4096)));
            let tasks: Vec<_> = (0..8)
                .map(|task| {
                    let port = Port::new(Arc::clone(&d) as Arc<dyn Drive>);
                    spawn("writer", move || {
                        for page in 0..512 {
                            let page = Lpa(task * 512 + page);
                            port.stream(page, 0, Streamed::Page(&Page::word(1)), WHAT).expect("streams");
                        }
                    })
                })
                .collect();
            tasks.into_iter().for_each(|task| task.join());
            4096.0 * 4096.0 / now().as_secs_f64() / 1e9
        })
    };
    let (one, eight) = (bandwidth(1), bandwidth(8));
    assert!(close(one, 2.3), "{one}");
    assert!(close(eight, 2.3 * 1.53 / 2.22), "{eight}");
}
