//! The canonical workload files: the nine rows of the ByteFS paper's Table 5 that Filebench runs.
//!
//! They are written by us in the Filebench language. Counts come from the paper's Table 5, the shape of the loop
//! and every size from the authors' `baseline` branch; each file says which number comes from where.
//!
//! It does *not* hold YCSB: that is not a Filebench workload.

use crate::Error;
use crate::lang;
use crate::spec::Workload;

/// A workload file that ships inside the binary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Builtin {
    /// The name that the command line uses, such as `varmail`.
    pub name: &'static str,
    /// One line for a listing.
    pub about: &'static str,
    /// The file, in the Filebench language.
    pub text: &'static str,
}

macro_rules! builtins {
    ($($name:literal: $about:literal,)*) => {
        &[$(Builtin { name: $name, about: $about, text: include_str!(concat!("../workloads/", $name, ".f")) },)*]
    };
}

/// In the order of Table 5.
const BUILTINS: &[Builtin] = builtins! {
    "create": "create, write 4 KiB, fsync, close; half of 1M files exist before (12 threads)",
    "delete": "unlink 1M files of 4 KiB (12 threads)",
    "mkdir": "make 1M directories (12 threads)",
    "rmdir": "remove 1M directories (12 threads)",
    "varmail": "mail server: small files, appends, an fsync after each (1M x 16 KiB, 12 threads)",
    "fileserver": "create, write, append, read, delete, stat; no fsync (100k x 128 KiB, 12 threads)",
    "webproxy": "delete, create, append, then read five files (1M x 16 KiB, 12 threads)",
    "webserver": "read ten files, append to one shared log (1M x 16 KiB, 12 threads)",
    "oltp": "database: 200 readers, 10 dsync writers, 1 log writer (1.6k x 10 MiB)",
};

/// The text of the built-in workload `name`, or `None` if there is none.
pub fn builtin(name: &str) -> Option<&'static str> {
    BUILTINS.iter().find(|b| b.name == name).map(|b| b.text)
}

/// All built-in workloads, in the order of the paper's Table 5.
pub fn list() -> &'static [Builtin] {
    BUILTINS
}

impl Workload {
    /// Reads the built-in workload `name`; `overrides` are as in [`Workload::parse`].
    ///
    /// # Errors
    ///
    /// [`Error::UnknownWorkload`], or [`Error::Script`] for an override that does not fit the file.
    pub fn from_builtin(name: &str, overrides: &[(String, String)]) -> Result<Self, Error> {
        let Some(text) = builtin(name) else {
            let nearest = lang::nearest(name, BUILTINS.iter().map(|b| b.name));
            return Err(Error::UnknownWorkload { name: name.to_owned(), nearest });
        };
        let mut workload = Self::parse(&format!("{name}.f"), text, overrides)?;
        // A file of that name in somebody's directory is another workload.
        name.clone_into(&mut workload.name);
        Ok(workload)
    }
}
