//! NAND flash array and flash translation layer (FTL) of the drive.
//!
//! ```text
//!   firmware (granary-mssd)          logical pages (Lpa), a Cause with every access
//!        |  read  write  trim  peek  power_cycle
//!   +----v-----------------------------------------------+
//!   | Ftl    L2P table, striped allocation, gc, wear     |
//!   |        leveling, bad blocks, power-up OOB scan     |
//!   +----+-----------------------------------------------+
//!        |  read  program  erase   physical pages (Ppa)
//!   +----v-----------------------------------------------+
//!   | Nand   planes and channel buses (timelines),       |
//!   |        NAND rules, erase counts, faults            |
//!   +----+-----------------------------------------------+
//!        |  Medium: pages, their OOB, block headers
//!   +----v-------+   +--------+   +- - - - - - -+
//!   | RamMedium  |   | NoData |   | image file  |   (elsewhere)
//!   +------------+   +--------+   +- - - - - - -+
//! ```
//!
//! Nothing here blocks: an access takes the instant at which it is issued and returns the instant at which it
//! is done, by reserving time on the planes and buses that it needs. Content moves at once; only its time
//! lies in the future.
//!
//! Invariants. A logical page has at most one live physical page, whose OOB names it. Every page that the FTL
//! programs, reads or erases is counted once under one [`Cause`]. The same calls give the same times and the
//! same placement.
//!
//! It does *not* know about hosts, links, DRAM caches or the write log (they are the firmware's), and it
//! does *not* model the bits that an ECC corrects, read disturb, retention loss, multi-level cell page types
//! or program/erase suspend.
//!
//! Source: ByteFS section 4.9 and Table 4 (page-level translation, page allocation and gc on 4 KiB flash
//! pages).

#![forbid(unsafe_code)]

mod config;
mod counters;
mod error;
mod faults;
mod ftl;
mod medium;
mod nand;
mod timeline;

pub use config::{FtlConfig, GcPolicy, Geometry, NandTiming, PlaneMode, Striping};
pub use counters::{Cause, FlashCounters};
pub use error::FlashError;
pub use faults::{ErrorConfig, FaultRates, Faults};
pub use ftl::policy::placement::{LogApart, Placement, UpdatesApart};
pub use ftl::policy::wear::{Gap, Leveling, Off};
pub use ftl::policy::{Blocks, Candidate, CostBenefit, Greedy, Policies, Victims};
pub use ftl::{Ftl, Wear};
pub use medium::{BlockHeader, BlockNo, Medium, NoData, Oob, RamMedium};
pub use nand::{Nand, NandStats};
pub use timeline::Timeline;
