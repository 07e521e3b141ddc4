//! ByteFS: the dual byte/block file system for memory-semantic SSDs (ASPLOS'25).
