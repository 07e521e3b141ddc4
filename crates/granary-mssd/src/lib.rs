//! The memory-semantic SSD: host link, NVMe and vendor commands, byte window, firmware, power.
