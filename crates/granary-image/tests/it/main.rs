//! Images: what was acknowledged is there after every kind of crash, and nothing that files can hold makes a
//! panic.

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
