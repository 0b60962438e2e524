//! Fits of shipped drives that are quick to compute. Run the slow ones with `straddle drive fit`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use straddle_drive::Profile;
use straddle_measure::bench::Silent;

use super::{FitError, fit, score, worst_of};
use crate::reproduce::experiment::{Judged, Measure, Quantity};

#[test]
fn a_fit_finds_the_values_that_are_shipped() {
    let found = fit("wd-green-2010", &mut Silent).unwrap();
    assert!(!found.knobs.is_empty());
    for knob in &found.knobs {
        assert!(
            (knob.after / knob.before - 1.0).abs() <= 1e-9,
            "run 'straddle drive fit wd-green-2010': {knob:?}"
        );
        assert!((knob.low..=knob.high).contains(&knob.after));
    }
    assert!(found.worst_after <= found.worst_nearby && found.worst_nearby < 0.2, "{found:?}");
}

#[test]
fn what_is_written_is_a_profile_with_the_values_found() {
    let mut found = fit("wd-green-2010", &mut Silent).unwrap();
    found.knobs[0].after = 17.0;
    let text = found.profile("mine");
    let profile = Profile::parse("mine", &text, &[]).unwrap();
    assert_eq!(profile.name, "mine");
    let figure = profile.figures.iter().find(|figure| figure.path == found.knobs[0].path).unwrap();
    assert_eq!(figure.value, "17");
    assert_eq!(figure.source.as_deref(), Some("fitted to miller-2010 by straddle drive fit"));
}

#[test]
fn a_drive_with_no_knob_has_its_errors_reported() {
    let found = fit("dell-6tb-7200-512e", &mut Silent).unwrap();
    assert!(found.knobs.is_empty() && found.evaluations == 1);
    assert_eq!(found.figures.len(), 6);
    assert!(found.figures.iter().all(|figure| figure.before.to_bits() == figure.after.to_bits()));
    assert!((found.worst_before - found.worst_after).abs() < 1e-12);
}

#[test]
fn what_cannot_be_fitted_is_refused() {
    assert!(matches!(fit("nothing", &mut Silent), Err(FitError::Drive(_))));
    assert!(matches!(fit("nvme-tlc-4k", &mut Silent), Err(FitError::NoFit { .. })));
    let error = fit("3tb-512e-2012", &mut Silent).unwrap_err();
    assert!(matches!(error, FitError::NoFigures { .. }), "{error}");
}

#[test]
fn the_score_is_the_worst_error_and_then_the_mean() {
    let judged = |modelled: f64| {
        let (step, arm, measure, quantity) = (0, 0, Measure::Elapsed, Quantity::Figure);
        Judged { step, arm, measure, quantity, modelled, published: 1.0, band: None }
    };
    let of = |figures: &[f64]| score(&figures.iter().copied().map(judged).collect::<Vec<_>>());
    assert!(of(&[1.11, 1.0]) > of(&[1.098, 1.098]));
    assert!(of(&[1.098, 0.99]) < of(&[0.902, 1.05]), "the same worst error, a better mean");
    assert!((worst_of(of(&[1.098, 0.99])) - 0.1).abs() < 0.006);
}
