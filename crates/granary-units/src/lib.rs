//! Units and the page: the vocabulary every Granary crate shares.
