//! [`RamDevices`]: new devices in memory for `mount ram:FS` and `export ram:`, and the record of what the SSD
//! is asked.

use crate::cli::mount::MemoryArgs;
use crate::failure::Failure;
use granary_bench::memory;
use granary_bench::{Precondition, Recorded};
use granary_device::{Devices, Role};
use granary_mssd::Mssd;
use granary_testbed::Testbed;
use granary_testbed::registry::FsEntry;
use granary_trace::drive::native::Header;
use granary_units::Bytes;
use std::sync::Arc;

/// The record that is being made.
pub type Record = Arc<Recorded<Mssd>>;

/// Devices in memory.
pub struct RamDevices {
    /// The devices to use: the SSD records where a record is wanted.
    pub devices: Devices,
    /// Where it is recorded; to be finished when nobody uses the drive any more.
    pub record: Option<Record>,
}

impl RamDevices {
    /// The testbed's devices for this file system, each of this capacity; for none its SSD with the
    /// page-cache firmware. `command` is who asks, for the header of a record if one is wanted.
    ///
    /// # Errors
    /// A drive that is not possible; a record that cannot be written.
    pub fn new(
        command: &str,
        testbed: &Testbed,
        set: &[String],
        fs: Option<&FsEntry>,
        size: Bytes,
        memory: &MemoryArgs,
    ) -> Result<RamDevices, Failure> {
        let testbed = testbed.clone().with_size(fs, size)?;
        let mut devices = Devices::none();
        if let Some(nvm) = &testbed.device.nvm {
            let dimm = memory::nvm(&testbed.name, nvm)?;
            devices = devices.with(Role::Nvm, Arc::new(dimm));
        }
        let Some(config) = testbed.drive.clone() else {
            return match &memory.record {
                None => Ok(RamDevices { devices, record: None }),
                Some(_) => Err(Failure::usage("--record records an SSD, and there is none here".to_owned())),
            };
        };
        let drive = Arc::new(memory::ssd(&testbed.name, &config, memory::Use::NEW)?);
        let Some(path) = &memory.record else {
            return Ok(RamDevices { devices: devices.with(Role::Ssd, drive), record: None });
        };
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
        Ok(RamDevices { devices: devices.with(Role::Ssd, record.clone()), record: Some(record) })
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
