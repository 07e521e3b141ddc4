//! Exporters: each turns records into one kind of output. stdout is data; nothing here talks.

mod csv;
mod html;
mod json;
mod lathist;
mod periods;
mod table;

pub use csv::csv;
pub use html::html;
pub use html::{escape, html_with};
pub use json::json_line;
pub use lathist::histograms;
pub use periods::periods;
pub use table::table;
