//! Testbeds, experiments, result records, comparison and reports.
