//! Time and tasks: the virtual world, the wall-clock world, locks, servers, random streams, histograms.
