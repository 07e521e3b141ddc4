//! ext4 in ordered mode over JBD2: the block-interface baseline.
