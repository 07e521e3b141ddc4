//! The Filebench language and its runner, in virtual time.
