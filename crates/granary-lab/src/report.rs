//! Exporters: each turns records into one kind of output. stdout is data; nothing here talks.

mod json;
mod table;

pub use json::json_line;
pub use table::table;
pub(crate) use table::{grid, group, right};
