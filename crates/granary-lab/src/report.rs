//! Exporters: each turns records into one kind of output. stdout is data; nothing here talks.

mod columns;
mod csv;
mod html;
mod json;
mod lathist;
mod periods;
mod table;

pub use columns::View;
pub(crate) use columns::{Column, tables};
pub use csv::csv;
pub use html::html;
pub(crate) use html::{escape, html_with};
pub use json::json_line;
pub use lathist::histograms;
pub use periods::periods;
pub use table::table;
pub(crate) use table::{Unit, grid, group, right};
