//! A test for each criterion: each fails if that criterion is loosened.

use super::*;
use Ours::{One, Span};
use Paper::{About, Above, Below, Number, Range};

fn class(paper: Paper, how: How, ours: Ours) -> &'static str {
    Class::of(paper, how, ours).word()
}

#[test]
fn measured_is_within_a_quarter_and_no_more() {
    for how in [How::Factor, How::Gain, How::Amount] {
        let of = |ours| Class::of(Number(4.0), how, One(ours));
        assert_eq!((of(5.0), of(3.0)), (Class::Measured, Class::Measured), "{how:?}");
        assert_ne!(of(5.1), Class::Measured, "{how:?}: 1.28 times");
        assert_ne!(of(2.9), Class::Measured, "{how:?}: 0.73 times");
    }
    assert_eq!(class(About(1.0), How::Factor, One(1.25)), "measured");
    assert_eq!(class(About(1.0), How::Factor, One(1.28)), "differs", "similar has no direction");
    assert_eq!(class(Number(0.0), How::Amount, One(0.004)), "measured");
    assert_eq!(class(Number(0.0), How::Amount, One(0.01)), "differs");
}

#[test]
fn same_direction_is_the_paper_s_side_of_one_and_tells_the_factor() {
    let of = |ours| Class::of(Number(1.0 / 3.0), How::Factor, One(ours));
    assert_eq!(of(0.94), Class::SameDirection { factor: Some(0.94 * 3.0) });
    assert_eq!(class(Number(29.76), How::Factor, One(1.01)), "same direction");
    assert_eq!(class(Number(29.76), How::Factor, One(0.99)), "differs");
    assert_eq!(class(Number(27.0), How::Gain, One(2.0)), "same direction");
    assert_eq!(class(Number(27.0), How::Gain, One(-2.0)), "differs");
}

/// 0.95 is within a quarter of 1.13, but says the opposite.
#[test]
fn a_number_near_the_paper_s_on_the_other_side_of_one_differs() {
    assert_eq!(class(Number(1.13), How::Factor, One(0.95)), "differs");
    assert_eq!(class(Number(0.9), How::Factor, One(1.05)), "differs");
    assert_eq!(class(Number(5.0), How::Saved, One(-1.0)), "differs");
}

#[test]
fn an_amount_has_no_direction() {
    assert_eq!(class(Number(2.0), How::Amount, One(1.0)), "differs");
    assert_eq!(class(Number(1.5), How::Amount, One(2.27)), "differs");
}

/// The savings are within a third of each other: 65 of 96 %. The rest is 8.75 times the paper's.
#[test]
fn of_a_saving_what_is_left_is_compared() {
    assert_eq!(
        Class::of(Number(96.0), How::Saved, One(65.0)),
        Class::SameDirection { factor: Some(35.0 / 4.0) }
    );
    assert_eq!(class(Number(97.0), How::Saved, One(65.0)), "same direction");
    assert_eq!(class(Number(97.0), How::Saved, One(97.5)), "measured");
    assert_eq!(class(Number(97.0), How::Saved, One(98.2)), "same direction", "0.6 of what is left there");
    assert_eq!(class(Number(33.0), How::Saved, One(-65.0)), "differs");
}

#[test]
fn of_a_range_both_ends_count() {
    let range = Range(2.64, 9.62);
    assert_eq!(class(range, How::Factor, Span(2.7, 9.5)), "measured");
    assert_eq!(class(range, How::Factor, Span(2.17, 9.5)), "same direction", "the least is out of it");
    assert_eq!(class(range, How::Factor, Span(2.7, 12.0)), "same direction", "the most is out of it");
    assert_eq!(class(range, How::Factor, Span(0.9, 9.5)), "differs", "the least is on the other side");
    let factor = Class::of(Range(1.5, 2.3), How::Factor, Span(1.5, 4.6));
    assert_eq!(factor, Class::SameDirection { factor: Some(2.0) }, "the end that is further off");
    assert_eq!(class(Range(4.0, 39.2), How::Amount, Span(2.0, 33.7)), "differs");
}

/// The most alone, or a mean of two ends, always lies within.
#[test]
fn one_number_never_says_a_range() {
    assert_eq!(class(Range(1.85, 10.71), How::Factor, One(6.31)), "same direction");
    assert_eq!(class(Range(4.0, 39.2), How::Amount, One(33.7)), "same direction");
    assert_eq!(class(Range(4.0, 39.2), How::Amount, One(40.0)), "differs");
}

#[test]
fn more_and_less_are_a_direction_at_best() {
    assert_eq!(class(Above(1.0), How::Factor, One(1.5)), "same direction");
    assert_eq!(class(Above(1.0), How::Factor, One(1.0)), "differs");
    assert_eq!(class(Above(2.0), How::Factor, One(1.9)), "differs");
    assert_eq!(class(Above(1.0), How::Factor, Span(0.9, 3.0)), "differs");
    assert_eq!(class(Below(0.5), How::Amount, One(0.0)), "same direction");
    assert_eq!(class(Below(0.5), How::Amount, One(0.5)), "differs");
}

#[test]
fn up_to_is_the_maximum_of_all_members_and_a_range_has_both_its_ends() {
    let all = [1.2, 3.0, 0.7];
    assert_eq!(Stat::Most.of(&all), Some(One(3.0)));
    assert_eq!(Stat::Least.of(&all), Some(One(0.7)));
    assert_eq!(Stat::Ends.of(&all), Some(Span(0.7, 3.0)));
    assert_eq!(Stat::Mean.of(&[1.0, 2.0]), Some(One(1.5)));
    assert_eq!(Stat::One.of(&all), None, "of three none is the one");
    assert_eq!(Stat::Most.of(&[]), None);
}

#[test]
fn a_statement_is_printed_as_the_paper_has_it() {
    assert_eq!((Number(2.50).text(), Range(1.2, 1.5).text()), ("2.5".into(), "1.2-1.5".into()));
    assert_eq!((About(1.0).text(), Above(1.0).text()), ("~1".into(), ">1".into()));
    assert_eq!((One(2.5).text(2), Span(0.5, 1.0).text(1)), ("2.50".into(), "0.5-1.0".into()));
}
