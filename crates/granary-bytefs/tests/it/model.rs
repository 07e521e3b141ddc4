//! The file system agrees with a plain model, and after a power failure with the model at one point of its
//! history.

use crate::common::client::Client;
use crate::common::model::{Model, Open, assert_same, real_shape, step, walk};
use crate::common::{
    assert_clean, format, in_world, open, small_cached, small_mssd, strict, until_power_fails,
};
use granary_bytefs::{CommitMode, DataMode, MountOptions, Variant};
use granary_device::Drive;
use granary_fs::{Call, Life};
use granary_sim::rng::Stream;
use granary_sim::{now, sleep_until};
use granary_units::Nanos;
use parking_lot::Mutex;
use std::sync::Arc;

fn random_options(s: &mut Stream, drive: &Arc<dyn Drive>) -> MountOptions {
    let variant = match drive.info().answers("COMMIT") {
        false => Variant::Dual,
        true if s.chance(0.2) => Variant::Log,
        true => Variant::Full,
    };
    MountOptions {
        variant,
        data: if variant != Variant::Dual && s.chance(0.3) { DataMode::Journal } else { DataMode::Ordered },
        commit: if s.chance(0.3) { CommitMode::Sync } else { CommitMode::Group },
        commit_batch: [1, 7, 256][s.below(3) as usize],
        byte_threshold_lines: [0, 8, 65][s.below(3) as usize],
        discard: s.chance(0.3),
        // Small enough that ordinary files go through the orphan table.
        max_free_lines: [1, 64][s.below(2) as usize],
        metadata_cache: granary_units::Bytes::kib(64),
        ..MountOptions::default()
    }
}

fn agrees(drive: Arc<dyn Drive>, seed: u64, steps: usize) {
    in_world(move || {
        let mut s = Stream::new(seed, "model");
        format(&drive);
        let mut model = Model::new();
        let mut op = 0;
        for _ in 0..3 {
            let options = random_options(&mut s, &drive);
            let fs = open(&drive, &options);
            assert!(fs.recovery().clean);
            let c = Client::new(fs.clone());
            assert_same(&c, &model);
            let mut opened: Vec<Open> = Vec::new();
            for _ in 0..steps {
                op += 1;
                step(Some(&c), &mut model, &mut s, op, &mut opened);
                if s.chance(0.02) {
                    fs.drop_caches(&Call::offline());
                }
            }
            for o in opened {
                c.close(&o.inode).expect("evicted");
            }
            assert_same(&c, &model);
            fs.sync(&Call::offline()).expect("synced");
            assert_clean(&fs);
            assert_eq!(fs.stats().reserved_blocks, 0);
            fs.unmount(&Call::offline()).expect("unmounted");
        }
        drive.check().expect("the drive is consistent");
    });
}

#[test]
fn random_operations_agree_with_the_model_on_a_strict_drive() {
    for seed in 0..6 {
        agrees(strict(8), seed, 300);
    }
}

#[test]
fn random_operations_agree_with_the_model_on_an_emulated_drive() {
    for seed in 100..102 {
        agrees(small_mssd(16), seed, 300);
    }
}

#[test]
fn random_operations_agree_with_the_model_without_a_write_log() {
    for seed in 300..302 {
        agrees(small_cached(16), seed, 300);
    }
}

/// The history up to the power failure.
#[derive(Default)]
struct History {
    /// The model after each operation; entry 0 is the empty file system.
    states: Vec<Model>,
    /// At least this many operations survive.
    durable: usize,
}

fn survives(drive: Arc<dyn Drive>, seed: u64) {
    drive.track_in_flight(true);
    let mut s = Stream::new(seed, "crash");
    let options = random_options(&mut s, &drive);
    let history = Arc::new(Mutex::new(History { states: vec![Model::new()], durable: 0 }));
    let ready = Arc::new(Mutex::new(Nanos::ZERO));
    {
        let (drive, ready) = (drive.clone(), ready.clone());
        in_world(move || {
            format(&drive);
            *ready.lock() = now();
        });
    }
    let start = *ready.lock();
    let at = start + Nanos(1 + s.below(60_000_000));
    let run = {
        let (drive, history, options) = (drive.clone(), history.clone(), options.clone());
        let mut s = Stream::new(seed, "operations");
        move || {
            sleep_until(start);
            let fs = open(&drive, &options);
            let c = Client::new(fs.clone());
            let mut opened = Vec::new();
            for op in 1.. {
                let mut model = history.lock().states.last().expect("never empty").clone();
                // The state after this operation, should the power fail while it is under way.
                let mut after = model.clone();
                step(None, &mut after, &mut s.clone(), op, &mut Vec::new());
                history.lock().states.push(after);
                step(Some(&c), &mut model, &mut s, op, &mut opened);
                let synced = model.nodes.values().filter(|n| n.synced.as_ref().is_some_and(|x| x.0 == op));
                let durable = synced.map(|n| n.touched).max();
                let mut h = history.lock();
                *h.states.last_mut().expect("just pushed") = model;
                h.durable = h.durable.max(durable.unwrap_or(0));
                if s.chance(0.01) {
                    drop(h);
                    fs.sync(&Call::offline()).expect("synced");
                    history.lock().durable = op;
                }
            }
        }
    };
    assert!(until_power_fails(at, run), "the operations go on for ever");
    in_world(move || {
        sleep_until(at);
        drive.power_fail(at, &mut Stream::new(seed, "power"));
        drive.power_on(now()).map(sleep_until).expect("power");
        let fs = open(&drive, &options);
        assert!(!fs.recovery().clean || history.lock().states.len() == 1);
        assert_clean(&fs);
        let c = Client::new(fs.clone());
        let h = history.lock();
        let shape = real_shape(&c);
        let matching = (h.durable..h.states.len()).rev().find(|&k| h.states[k].shape() == shape);
        if let Some(k) = matching {
            let last = h.states.last().expect("never empty");
            for (id, path) in h.states[k].files() {
                let Some((when, content)) = h.states[k].nodes[&id].synced.as_ref() else { continue };
                let untouched = last.nodes.get(&id).is_none_or(|n| n.written <= *when)
                    && h.states[k].nodes[&id].written <= *when
                    && last.nodes.contains_key(&id);
                if untouched {
                    assert!(
                        c.read(&walk(&c, &path)).expect("readable") == **content,
                        "{path:?} lost content"
                    );
                }
            }
        }
        let newest = h.states.len() - 1;
        assert!(
            matching.is_some(),
            "seed {seed}: no state from {} to {newest} has this shape: {shape:#?}, last {:#?}",
            h.durable,
            h.states[newest].shape()
        );
        drop(h);
        // Work goes on.
        let root = c.root();
        let f = c.file(&root, b"after the failure").expect("created");
        c.write(&f, 0, &[7; 10_000]).expect("written");
        c.fs.fsync(&Call::offline(), &f, false).expect("synced");
        fs.sync(&Call::offline()).expect("synced");
        assert_clean(&fs);
        fs.unmount(&Call::offline()).expect("unmounted");
        let fs = open(&drive, &options);
        assert!(fs.recovery().clean);
        let c = Client::new(fs);
        let f = c.lookup(&c.root(), b"after the failure").expect("readable").expect("there");
        assert_eq!(c.read(&f).expect("readable"), vec![7; 10_000]);
    });
}

#[test]
fn a_power_failure_leaves_one_point_of_the_history_on_a_strict_drive() {
    for seed in 0..12 {
        survives(strict(8), seed);
    }
}

#[test]
fn a_power_failure_leaves_one_point_of_the_history_on_an_emulated_drive() {
    for seed in 200..205 {
        survives(small_mssd(16), seed);
    }
}

#[test]
fn a_power_failure_leaves_one_point_of_the_history_without_a_write_log() {
    for seed in 400..404 {
        survives(small_cached(16), seed);
    }
}
