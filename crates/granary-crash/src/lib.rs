//! Crash explorer: power-fail points, oracles, replay.
