//! Tests of this module.

use super::*;
use granary_sim::rng::Stream;

fn span(start: u64, end: u64) -> Span {
    Span { start: Nanos(start), end: Nanos(end) }
}

#[test]
fn work_that_is_ready_goes_before_work_that_is_reserved_for_later() {
    let mut t = Timeline::new(Nanos(5));
    assert_eq!(t.fill(Nanos(100), Nanos(10)), span(100, 110));
    assert_eq!(t.fill(Nanos(40), Nanos(10)), span(40, 50));
    assert_eq!(t.fill(Nanos(40), Nanos(10)), span(50, 60));
    assert_eq!(t.fill(Nanos(95), Nanos(10)), span(110, 120), "does not fit before 100");
    assert_eq!(t.append(Nanos(0), Nanos(10)), span(120, 130), "append never goes back");
    assert_eq!((t.busy(), t.served()), (Nanos(50), 5));
}

#[test]
fn a_probe_says_where_the_work_would_go() {
    let mut t = Timeline::new(Nanos(3));
    let mut rng = Stream::new(5, "probe");
    for now in (0..20_000).step_by(9) {
        let (ready, len) = (Nanos(now + rng.below(200)), Nanos(3 + rng.below(15)));
        let would = t.probe(ready, len);
        assert_eq!(would, t.fill(ready, len).start);
        t.pass(Nanos(now));
    }
}

/// No two reservations overlap and none starts before it is ready, whatever the order of calls.
#[test]
fn reservations_never_overlap() {
    let mut t = Timeline::new(Nanos(3));
    let mut rng = Stream::new(1, "timeline");
    let mut all = Vec::new();
    let mut now = 0;
    for _ in 0..20_000 {
        now += rng.below(12);
        let (ready, len) = (now + rng.below(200), 3 + rng.below(15));
        let s = if rng.chance(0.8) {
            t.fill(Nanos(ready), Nanos(len))
        } else {
            t.append(Nanos(ready), Nanos(len))
        };
        assert!(s.start.0 >= ready && s.end.0 == s.start.0 + len);
        all.push((s.start.0, s.end.0));
    }
    all.sort_unstable();
    assert!(all.windows(2).all(|w| w[0].1 <= w[1].0));
}

/// Random reservations without urgent work, the same with and without a queue.
fn random_work(t: &mut Timeline, rng: &mut Stream, now: u64) {
    let (ready, len) = (now + rng.below(300), 3 + rng.below(40));
    if rng.chance(0.5) {
        t.fill(Nanos(ready), Nanos(len));
    } else {
        t.append(Nanos(ready), Nanos(len));
    }
}

/// Urgent work waits for running work and for urgent work before it, no longer; nothing overlaps, no idle
/// time is lost or made up.
#[test]
fn urgent_work_waits_for_what_runs_only() {
    let mut rng = Stream::new(3, "timeline");
    let mut t = Timeline::with_queue(Nanos(3));
    let (mut now, mut passed, mut urgent) = (0, 0, Vec::new());
    for _ in 0..20_000 {
        now += rng.below(40);
        t.pass(Nanos(now));
        let before = t.queue.as_ref().expect("it has one").reserved();
        urgent.retain(|&(_, end)| end > now);
        if rng.chance(0.6) {
            random_work(&mut t, &mut rng, now);
        } else {
            let len = 5;
            let span = t.urgent(Nanos(now), Nanos(len));
            let running = before.iter().find(|&&(start, end)| start < now && end > now);
            let others = urgent.iter().map(|&(start, end): &(u64, u64)| end - start.max(now)).sum::<u64>();
            // A piece of idle time may be too short for it: then it waits until that has passed.
            let most = running.map_or(now, |r| r.1) + others + len;
            assert!(span.start.0 >= now && span.start.0 <= most, "{span:?} at {now}, {running:?}");
            passed += u32::from(before.last().is_some_and(|last| last.0 > span.start.0));
            urgent.push((span.start.0, span.end.0));
        }
        let all = t.queue.as_ref().expect("it has one").reserved();
        assert!(all.windows(2).all(|w| w[0].1 <= w[1].0), "{all:?}");
        assert!(all.last().is_none_or(|last| last.1 <= t.horizon().0));
        let idle = |&&(a, b): &&(u64, u64)| all.iter().all(|&(start, end)| end <= a || start >= b);
        assert!(t.gaps.rev().all(|g| idle(&&g)), "{:?} of {all:?}", t.gaps);
        // Time between reservations that is long enough is known to be idle.
        let between = all.windows(2).filter(|w| w[0].1 >= now && w[1].0 - w[0].1 >= 3);
        let known = between.map(|w| (w[0].1, w[1].0)).all(|gap| t.gaps.rev().any(|g| g == gap));
        assert!(known, "{all:?}: {:?}", t.gaps);
    }
    assert!(passed > 1_000, "{passed}");
    assert_eq!(t.served(), 20_000);
}

/// Without urgent work a queue changes nothing, and work that has passed need not be known.
#[test]
fn a_queue_and_forgetting_change_no_reservation() {
    let mut rng = Stream::new(4, "timeline");
    let (mut plain, mut t) = (Timeline::new(Nanos(3)), Timeline::with_queue(Nanos(3)));
    let mut now = 0;
    for _ in 0..20_000 {
        now += rng.below(40);
        t.pass(Nanos(now));
        let mut again = rng.clone();
        random_work(&mut plain, &mut rng, now);
        random_work(&mut t, &mut again, now);
        assert_eq!((t.horizon(), t.busy()), (plain.horizon(), plain.busy()));
    }
}

/// All reservations are done by now, or lie ahead.
#[test]
fn what_lies_ahead_is_what_was_reserved_and_is_not_done() {
    for queue in [false, true] {
        let mut rng = Stream::new(5, "timeline");
        let mut t = if queue { Timeline::with_queue(Nanos(1)) } else { Timeline::new(Nanos(1)) };
        let (mut now, mut all) = (0, Vec::new());
        for _ in 0..2_000 {
            now += rng.below(40);
            t.pass(Nanos(now));
            let (ready, len) = (Nanos(now + rng.below(300)), Nanos(3 + rng.below(40)));
            let span = if rng.chance(0.5) { t.fill(ready, len) } else { t.append(ready, len) };
            all.push((span.start.0, span.end.0));
            let at = now + rng.below(200);
            let ahead: u64 = all.iter().map(|&(start, end)| end.saturating_sub(start.max(at))).sum();
            assert_eq!(t.ahead(Nanos(at)), Nanos(ahead), "at {at}, queue: {queue}");
        }
    }
}

/// Work at equal distances that nothing is in the way of is booked as if it came piece by piece.
#[test]
fn work_at_equal_distances_is_served_as_if_it_came_piece_by_piece() {
    let mut rng = Stream::new(6, "timeline");
    let mut t = Timeline::new(Nanos(5));
    let mut now = 0;
    for _ in 0..2_000 {
        random_work(&mut t, &mut rng, now);
        let mut plain = t.clone();
        let (len, count) = (1 + rng.below(30), rng.below(6));
        let distance = len + rng.below(20);
        let ready = t.horizon().0.max(now) + rng.below(30);
        for i in 0..count {
            plain.pass(Nanos(ready + distance * i - len));
            plain.append(Nanos(ready + distance * i), Nanos(len));
        }
        if count > 0 {
            now = ready + distance * (count - 1) - len;
            t.pass(Nanos(now));
        }
        t.append_each(Nanos(ready), Nanos(len), Nanos(distance), count);
        assert_eq!((t.horizon(), t.busy(), t.served()), (plain.horizon(), plain.busy(), plain.served()));
        for after in [0, 1, len, 2 * distance] {
            assert_eq!(t.ahead(Nanos(now + after)), plain.ahead(Nanos(now + after)), "{after} after {now}");
        }
        // Later work finds the same idle time.
        let (ready, len) = (Nanos(now + rng.below(40)), Nanos(5 + rng.below(10)));
        assert_eq!(t.fill(ready, len), plain.fill(ready, len));
    }
}

/// A sequence that goes on where it was is served exactly as one that searches anew each time.
#[test]
fn a_sequence_is_served_as_if_each_were_searched_for() {
    let mut rng = Stream::new(2, "timeline");
    let mut t = Timeline::new(Nanos(5));
    let (mut now, mut filled) = (0, 0);
    for _ in 0..5_000 {
        now += rng.below(60);
        // Reservations far ahead leave gaps.
        for _ in 0..rng.below(4) {
            t.append(Nanos(now + rng.below(400)), Nanos(5 + rng.below(20)));
        }
        let mut plain = t.clone();
        t.begin(Nanos(now), Nanos(10));
        let mut ready = now;
        for _ in 0..rng.below(20) {
            ready += [0, rng.below(8), rng.below(80)][rng.below(3) as usize];
            let span = t.fill_on(Nanos(ready), Nanos(10));
            assert_eq!(span, plain.fill(Nanos(ready), Nanos(10)));
            filled += (span.end < t.horizon()) as u32;
        }
        assert_eq!((&t.gaps, t.horizon(), t.busy()), (&plain.gaps, plain.horizon(), plain.busy()));
        if rng.chance(0.02) {
            now = t.horizon().0;
        }
    }
    assert!(filled > 1_000, "{filled} in gaps");
}
