//! The file-system interface, POSIX calls, page cache, inode and dentry caches, and the reference model.
