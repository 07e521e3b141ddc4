//! The command line as programs and people use it.

mod cli;
mod commit;
mod common;
mod crash;
mod crash_kernel;
mod export;
mod fio_counts;
mod grow;
mod guide;
mod header;
mod image;
mod inputs;
mod kill;
mod kill_devices;
mod mapped;
mod members;
mod memory;
mod mixed;
mod mount;
mod moved;
mod own;
mod posix_tools;
mod protection;
mod records;
mod stacked;
