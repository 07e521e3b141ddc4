//! `granary lscp`, `mkcp`, `chcp`, `rmcp`: checkpoints and snapshots of an image that nobody uses, with the
//! names of nilfs-utils.
//!
//! A checkpoint is mounted with `granary mount --read-only --set fs.nilfs2.cp=N IMAGE DIR`.

use crate::cli::Kept;
use crate::cmd::serve::when_free;
use comfy_table::Table;
use granary_fs::{Checkpoint, CheckpointCall};
use granary_lab::LabError;
use granary_lab::image::checkpoints;
use std::path::Path;

/// `lscp`.
pub fn list(image: &Path, snapshots: bool, json: bool) -> Result<(), LabError> {
    let mut all = when_free(image, || checkpoints(image, CheckpointCall::List))?.all;
    all.retain(|cp| cp.snapshot || !snapshots);
    if json {
        let rows: Vec<_> = all.iter().map(in_json).collect();
        outln!("{}", serde_json::json!(rows));
        return Ok(());
    }
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::NOTHING);
    table.set_header(["checkpoint", "mounted for, s", "mode", "inodes", "blocks"]);
    for cp in &all {
        let mode = if cp.snapshot { "ss" } else { "cp" };
        let age = format!("{:.3}", cp.age.as_secs_f64());
        table.add_row([&cp.number.to_string(), &age, mode, &cp.inodes.to_string(), &cp.blocks.to_string()]);
    }
    outln!("{table}");
    Ok(())
}

fn in_json(cp: &Checkpoint) -> serde_json::Value {
    serde_json::json!({
        "checkpoint": cp.number, "age_ns": cp.age.0, "snapshot": cp.snapshot, "inodes": cp.inodes, "blocks": cp.blocks,
    })
}

/// `mkcp`.
pub fn make(image: &Path, snapshot: bool) -> Result<(), LabError> {
    let made = when_free(image, || checkpoints(image, CheckpointCall::Make { snapshot }))?.made;
    made.iter().for_each(|number| outln!("{number}"));
    Ok(())
}

/// `chcp`.
pub fn change(image: &Path, to: Kept, numbers: &[u64]) -> Result<(), LabError> {
    numbers.iter().try_for_each(|&number| {
        let call = match to {
            Kept::Ss => CheckpointCall::Keep(number),
            Kept::Cp => CheckpointCall::Release(number),
        };
        checkpoints(image, call).map(drop)
    })
}

/// `rmcp`.
pub fn end(image: &Path, numbers: &[u64]) -> Result<(), LabError> {
    numbers.iter().try_for_each(|&number| checkpoints(image, CheckpointCall::End(number)).map(drop))
}
