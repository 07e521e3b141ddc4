//! The built-in workload files: the nine rows of the ByteFS paper's Table 5 that Filebench runs, and
//! generators of what three of FIU's traces are (SPFS slides).
//!
//! They are written by us in the Filebench language. Of the nine, counts come from the paper's Table 5, the
//! shape of the loop and every size from the authors' `baseline` branch; each file says which number comes
//! from where, and which has no source.
//!
//! It does *not* hold YCSB: that is not a Filebench workload.

use crate::Error;
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

/// In the order of Table 5, then FIU's.
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
    "moodle": "as FIU's trace: web and database server, 99 % of the writes fsynced (400 x 16 MiB, 60k x 64 KiB, 4 threads)",
    "usr1": "as FIU's trace: a desktop, 72 % of the writes fsynced (databases, documents, a cache; 4 threads)",
    "usr2": "as FIU's trace: another desktop, 38 % of the writes fsynced (databases, a cache; 4 threads)",
};

/// The text of the built-in workload `name`, or `None` if there is none.
pub fn builtin(name: &str) -> Option<&'static str> {
    BUILTINS.iter().find(|b| b.name == name).map(|b| b.text)
}

/// All built-in workloads: those of the paper's Table 5 in its order, then those of FIU's traces.
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
            let nearest = granary_trace::suggest::nearest(name, BUILTINS.iter().map(|b| b.name));
            return Err(Error::UnknownWorkload { name: name.to_owned(), nearest });
        };
        let mut workload = Self::parse(&format!("{name}.f"), text, overrides)?;
        // A file of that name in somebody's directory is another workload.
        name.clone_into(&mut workload.name);
        Ok(workload)
    }
}
