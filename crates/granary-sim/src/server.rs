//! [`Server`]: a resource with `k` places served first come, first served: a NAND die, a channel, a link, a
//! core.
//!
//! ```text
//!   reserve(ready, len):   place that is free first ──┐
//!        |ready|...waits...|start ===== len ===== end |   free[place] = end
//! ```
//!
//! It is a timeline: reservations are made in call order and never moved. It does *not* block anybody; the
//! caller decides whether to wait until [`Span::end`]. A reservation made for a later instant leaves the gap
//! before it unused, so callers reserve at the moment the work arrives.

use granary_units::Nanos;

/// When a piece of work is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Service begins.
    pub start: Nanos,
    /// Service ends and the place is free again.
    pub end: Nanos,
}

/// A first-come-first-served resource with one or more places.
#[derive(Clone, Debug)]
pub struct Server {
    /// Instant at which each place becomes free; a binary min-heap.
    free: Vec<u64>,
    busy: u64,
    served: u64,
}

impl Server {
    /// A server with `places` places, all free.
    ///
    /// # Panics
    /// With no places.
    pub fn new(places: usize) -> Server {
        assert!(places > 0, "a server needs at least one place");
        Server { free: vec![0; places], busy: 0, served: 0 }
    }

    /// Reserves the place that becomes free first, for `len` from `ready` on or as soon after as it is free.
    ///
    /// # Panics
    /// Where all places have been taken out.
    #[inline]
    pub fn reserve(&mut self, ready: Nanos, len: Nanos) -> Span {
        let start = ready.0.max(self.free[0]);
        let end = start + len.0;
        self.busy += len.0;
        self.served += 1;
        self.replace_first(end);
        Span { start: Nanos(start), end: Nanos(end) }
    }

    /// The earliest instant at which a place is free; the end of time where all have been taken out.
    #[inline]
    pub fn next_free(&self) -> Nanos {
        self.free.first().map_or(Nanos::MAX, |&t| Nanos(t))
    }

    /// Takes the place out that becomes free first, for work whose length shows when it begins. Returns when
    /// that can be.
    ///
    /// # Panics
    /// With no place left.
    pub fn take(&mut self) -> Nanos {
        let first = self.free[0];
        let last = self.free.pop().expect("it is there");
        if !self.free.is_empty() {
            self.replace_first(last);
        }
        Nanos(first)
    }

    /// Brings a place back that was taken out: its work began at `start` and ends at `end`.
    pub fn give(&mut self, start: Nanos, end: Nanos) {
        self.busy += (end - start).0;
        self.served += 1;
        self.free.push(end.0);
        let mut i = self.free.len() - 1;
        while i > 0 && self.free[(i - 1) / 2] > self.free[i] {
            self.free.swap(i, (i - 1) / 2);
            i = (i - 1) / 2;
        }
    }

    /// Total service time given so far, over all places; for utilisation.
    pub fn busy(&self) -> Nanos {
        Nanos(self.busy)
    }

    /// Reservations made so far.
    pub fn served(&self) -> u64 {
        self.served
    }

    fn replace_first(&mut self, value: u64) {
        let (free, mut i) = (&mut self.free, 0);
        loop {
            let mut child = 2 * i + 1;
            if child >= free.len() {
                break;
            }
            if child + 1 < free.len() && free[child + 1] < free[child] {
                child += 1;
            }
            if free[child] >= value {
                break;
            }
            free[i] = free[child];
            i = child;
        }
        free[i] = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_place_serves_in_order() {
        let mut s = Server::new(1);
        let span = |start, end| Span { start: Nanos(start), end: Nanos(end) };
        assert_eq!(s.reserve(Nanos(0), Nanos(10)), span(0, 10));
        assert_eq!(s.reserve(Nanos(5), Nanos(10)), span(10, 20));
        assert_eq!(s.reserve(Nanos(50), Nanos(1)), span(50, 51));
        assert_eq!(s.busy(), Nanos(21));
    }

    /// `k` places give each request the same times as a naive search for the first free place.
    #[test]
    fn many_places_serve_like_a_naive_search() {
        let mut s = Server::new(5);
        let mut naive = [0u64; 5];
        let mut rng = crate::rng::Stream::new(1, "server");
        let mut t = 0;
        for _ in 0..10_000 {
            t += rng.below(20);
            let len = rng.below(100);
            let first = naive.iter_mut().min().expect("five places");
            let start = (*first).max(t);
            *first = start + len;
            let span = Span { start: Nanos(start), end: Nanos(start + len) };
            assert_eq!(s.reserve(Nanos(t), Nanos(len)), span);
        }
    }

    /// Places that are taken out and brought back are served like reservations of the same length.
    #[test]
    fn taking_and_giving_is_reserving() {
        let (mut reserved, mut taken) = (Server::new(3), Server::new(3));
        let mut rng = crate::rng::Stream::new(2, "server");
        let mut t = 0;
        for _ in 0..10_000 {
            t += rng.below(40);
            let len = Nanos(rng.below(100));
            let span = reserved.reserve(Nanos(t), len);
            assert_eq!(taken.next_free(), taken.clone().take());
            let start = taken.take().max(Nanos(t));
            taken.give(start, start + len);
            assert_eq!((start, start + len), (span.start, span.end));
        }
        assert_eq!((taken.busy(), taken.served()), (reserved.busy(), reserved.served()));
        (0..3).for_each(|_| assert!(taken.take() < Nanos::MAX));
        assert_eq!(taken.next_free(), Nanos::MAX);
    }
}
