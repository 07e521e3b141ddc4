//! [`Devices`]: the storage of one host, by what each device is for.
//!
//! Invariants: power fails on all devices at one instant, and each loses its own legal subset; the order of
//! the roles is the order of everything that goes over all devices. It does *not* make devices: testbeds do.

use crate::counters::DriveCounters;
use crate::drive::{Drive, DriveError, DriveInfo};
use crate::port::Port;
use crate::vendor::pebble::REMAP_KEEP;
use granary_sim::rng::Stream;
use granary_units::Nanos;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// Roles of devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Flash behind PCIe, CXL or SATA: memory-semantic or plain.
    Ssd,
    /// Byte-addressable memory on the memory bus.
    Nvm,
}

impl Role {
    /// All, in order.
    pub const ALL: [Role; 2] = [Role::Ssd, Role::Nvm];

    /// Its name in testbeds, records and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Role::Ssd => "ssd",
            Role::Nvm => "nvm",
        }
    }

    /// The role of this name.
    pub fn find(name: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.name() == name)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The storage of one host: at most one device of each role.
#[derive(Clone, Default)]
pub struct Devices {
    ports: [Option<Port>; Role::ALL.len()],
}

impl Devices {
    /// None.
    pub fn none() -> Devices {
        Devices::default()
    }

    /// One SSD: a host's default.
    pub fn ssd(drive: Arc<dyn Drive>) -> Devices {
        Devices::none().with(Role::Ssd, drive)
    }

    /// These, and `drive` for `role` (in the place of what was there).
    pub fn with(mut self, role: Role, drive: Arc<dyn Drive>) -> Devices {
        self.ports[role as usize] = Some(Port::new(drive));
        self
    }

    /// The port of a role, if there is a device.
    pub fn get(&self, role: Role) -> Option<&Port> {
        self.ports[role as usize].as_ref()
    }

    /// The port of the best device for a need.
    ///
    /// # Errors
    /// There is none.
    pub fn serving(&self, need: Need) -> Result<&Port, Missing> {
        self.role_for(need).and_then(|role| self.get(role)).ok_or(Missing(need))
    }

    /// The role whose device [`Devices::serving`] gives.
    pub fn role_for(&self, need: Need) -> Option<Role> {
        let serves = |role: &&Role| self.get(**role).is_some_and(|port| need.is_served_by(&port.info()));
        need.roles().iter().find(serves).copied()
    }

    /// All, in the order of the roles.
    pub fn iter(&self) -> impl Iterator<Item = (Role, &Port)> {
        Role::ALL.into_iter().filter_map(|role| Some((role, self.get(role)?)))
    }

    /// The drives alone.
    pub fn drives(&self) -> impl Iterator<Item = (Role, &Arc<dyn Drive>)> {
        self.iter().map(|(role, port)| (role, port.drive()))
    }

    /// The same with another drive in the place of each: for wrappers.
    pub fn map(&self, mut wrap: impl FnMut(Role, Arc<dyn Drive>) -> Arc<dyn Drive>) -> Devices {
        self.drives().fold(Devices::none(), |all, (role, drive)| all.with(role, wrap(role, drive.clone())))
    }

    /// Lets all finish their background work; returns when the last is idle.
    ///
    /// # Errors
    /// The first device's that fails.
    pub fn settle(&self, now: Nanos) -> Result<Nanos, DriveError> {
        self.drives().try_fold(now, |idle, (_, drive)| Ok(idle.max(drive.settle(now)?)))
    }

    /// Second devices in the same state ([`Drive::fork`]); `None` where one of them has none.
    pub fn fork(&self) -> Option<Devices> {
        let mut forks = Devices::none();
        for (role, drive) in self.drives() {
            forks = forks.with(role, drive.fork()?);
        }
        Some(forks)
    }

    /// Cuts the power of all at one instant. The content that each keeps is drawn from `random` in the order
    /// of the roles.
    pub fn power_fail(&self, now: Nanos, random: &mut Stream) {
        self.drives().for_each(|(role, drive)| {
            random.fates_of(role.name());
            drive.power_fail(now, random);
        });
    }

    /// Powers all up; returns when the last answers.
    ///
    /// # Errors
    /// The first device's that fails.
    pub fn power_on(&self, now: Nanos) -> Result<Nanos, DriveError> {
        self.drives().try_fold(now, |ready, (_, drive)| Ok(ready.max(drive.power_on(now)?)))
    }

    /// See [`Drive::track_in_flight`].
    pub fn track_in_flight(&self, on: bool) {
        self.drives().for_each(|(_, drive)| drive.track_in_flight(on));
    }

    /// See [`Drive::answer_late`].
    pub fn answer_late(&self, seed: Option<u64>) {
        self.drives().for_each(|(_, drive)| drive.answer_late(seed));
    }

    /// The counters of all together.
    pub fn sum(&self) -> DriveCounters {
        self.counters().iter().fold(DriveCounters::default(), |all, (_, own)| all.plus(own))
    }

    /// Each device's counters.
    pub fn counters(&self) -> Vec<(Role, DriveCounters)> {
        self.drives().map(|(role, drive)| (role, drive.counters())).collect()
    }

    /// Internal consistency of all.
    ///
    /// # Errors
    /// One sentence per violation, with the role.
    pub fn check(&self) -> Result<(), Vec<String>> {
        let found: Vec<String> = self
            .drives()
            .flat_map(|(role, drive)| {
                drive.check().err().unwrap_or_default().into_iter().map(move |e| format!("{role}: {e}"))
            })
            .collect();
        if found.is_empty() { Ok(()) } else { Err(found) }
    }
}

impl fmt::Debug for Devices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|(role, port)| (role.name(), port.info()))).finish()
    }
}

/// Needs of a file system that the host's devices serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Blocks: an SSD.
    Blocks,
    /// Bytes that stay: NVM where there is some, else the byte window of an SSD.
    Bytes,
    /// The same for a file system that works inside the drive: no link lies between it and an SSD's memory.
    Inside,
    /// Blocks and bytes of one SSD.
    Both,
    /// Blocks of an SSD that gives pages second names (REMAP keep, PebbleSSD).
    Names,
    /// Memory on the memory bus: a byte window is too slow for it.
    Nvm,
}

impl Need {
    /// Bytes that a DIMM or a byte window can serve.
    pub fn is_bytes(self) -> bool {
        matches!(self, Need::Bytes | Need::Inside)
    }

    /// The roles that serve it, the best first.
    pub fn roles(self) -> &'static [Role] {
        match self {
            Need::Blocks | Need::Both | Need::Names => &[Role::Ssd],
            Need::Bytes | Need::Inside => &[Role::Nvm, Role::Ssd],
            Need::Nvm => &[Role::Nvm],
        }
    }

    /// Whether a device can serve it.
    pub fn is_served_by(self, info: &DriveInfo) -> bool {
        match self {
            Need::Blocks => info.blocks,
            Need::Names => info.blocks && info.answers(REMAP_KEEP),
            Need::Bytes | Need::Inside | Need::Nvm => info.bytes,
            Need::Both => info.blocks && info.bytes,
        }
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Need::Blocks => "an SSD with a block interface",
            Need::Bytes | Need::Inside => "an NVM DIMM, or an SSD with a byte window",
            Need::Both => "an SSD with a block interface and a byte window",
            Need::Names => "an SSD that gives pages second names (REMAP keep)",
            Need::Nvm => "an NVM DIMM",
        })
    }
}

/// No device serves a need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("needs {0}, which there is not")]
pub struct Missing(pub Need);
