//! The file systems under test: all of the registry.

use granary_crash::{Load, Target};
use granary_lab::registry::FILE_SYSTEMS;
use std::sync::Arc;

/// The target with this name.
pub fn by_name(name: &str) -> Option<Arc<dyn Target>> {
    granary_crash::target::by_name(FILE_SYSTEMS, name)
}

/// The load with this name.
pub fn load(name: &str) -> Option<Arc<dyn Load>> {
    granary_crash::load_by_name(name).ok()
}
