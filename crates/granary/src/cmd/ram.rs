//! [`RamDrive`]: a new drive in memory for `mount ram:FS` and `export ram:`, and the record of what it is asked.

use crate::cli::mount::MemoryArgs;
use crate::failure::Failure;
use granary_device::Drive;
use granary_lab::drive::trace::native::Header;
use granary_lab::drive::{Precondition, Recorded};
use granary_lab::testbed::Testbed;
use granary_mssd::{Mode, Mssd};
use granary_units::Bytes;
use std::sync::Arc;

/// The record that is being made.
pub type Record = Arc<Recorded<Mssd>>;

/// A drive in memory.
pub struct RamDrive {
    /// What is to be used: it records, where that is wanted.
    pub drive: Arc<dyn Drive>,
    /// Where it is recorded; to be finished when nobody uses the drive any more.
    pub record: Option<Record>,
}

impl RamDrive {
    /// The testbed's drive with this firmware and capacity. `command` is who asks, for the header of a record if one is wanted.
    ///
    /// # Errors
    /// A drive that is not possible; a record that cannot be written.
    pub fn new(
        command: &str,
        testbed: &Testbed,
        set: &[String],
        mode: Mode,
        size: Bytes,
        memory: &MemoryArgs,
    ) -> Result<RamDrive, Failure> {
        let mut config = testbed.drive.clone().with_mode(mode);
        config.flash = config.flash.with_capacity(size);
        let drive = Arc::new(Mssd::new(&config).map_err(|e| Failure::usage(e.to_string()))?);
        let Some(path) = &memory.record else { return Ok(RamDrive { drive, record: None }) };
        let header = Header {
            granary: env!("CARGO_PKG_VERSION").to_owned(),
            source: command.to_owned(),
            testbed: testbed.name.clone(),
            set: set.to_vec(),
            seed: 1,
            precondition: Precondition::None.to_string(),
            drive: config,
        };
        let record = Arc::new(Recorded::create(path, &header, drive)?);
        Ok(RamDrive { drive: record.clone(), record: Some(record) })
    }
}

/// Refuses what only a drive in memory takes, for an image: `instead` is what to say.
///
/// # Errors
/// Where one of them is given.
pub fn refuse(memory: &MemoryArgs, instead: &str) -> Result<(), Failure> {
    let why = if memory.record.is_some() {
        format!("--record begins with an empty drive, so that the record can be replayed: {instead} for it")
    } else if memory.size.is_some() {
        "--size: an image has its size (`granary stat IMAGE`); `granary grow IMAGE --size SIZE` makes it larger".to_owned()
    } else if memory.testbed.is_some() {
        "--testbed: an image has its drive since `granary mkfs IMAGE --testbed NAME`".to_owned()
    } else {
        return Ok(());
    };
    Err(Failure::usage(why))
}

/// Says how many calls are in the record, for `granary stat`.
pub fn counter(record: &Option<Record>) -> Option<Arc<dyn Fn() -> u64 + Send + Sync>> {
    let record = record.clone()?;
    Some(Arc::new(move || record.count()))
}
