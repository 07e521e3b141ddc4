//! A drive on an image: the layout of the drive's memory ([`layout`]), and the flash ([`medium`]).
//!
//! The firmware is above: it says what its zones hold, and makes itself from them again. `mssd/kept.rs` puts
//! the drive together.

mod holes;
pub mod layout;
pub mod medium;
