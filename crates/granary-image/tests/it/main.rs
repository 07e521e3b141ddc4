//! Images: acknowledged changes are there after every kind of crash, and no content of files makes a panic.

mod bam;
mod corrupt;
mod crash;
mod files;
mod grow;
mod mixed;
mod nvm;
mod paced;
mod recover;
mod rig;
