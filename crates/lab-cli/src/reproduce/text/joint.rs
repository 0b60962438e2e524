//! How each policy suits all figures of a drive, as text for people.

use straddle_cli::output::{paint, printable, style};
use straddle_cli::view::text::{number, plain_table, right, trimmed, wrap};
use straddle_drive::disk::RmwPolicy;
use straddle_lab::reproduce::joint::{Joint, Score, Totals};

use crate::reproduce::json::JudgedFigures;

pub(crate) const RULE: &str = "For each drive, the policy with the most figures and ratios within 20 % of \
                               the published values is chosen. Ties are decided by the number within 25 %, \
                               then by the worst ratio to a published value (the ratio closest to 1 wins, \
                               if the difference is more than 0.1 %), and then in favour of the policy in \
                               the drive's profile (its own policy). A policy that was not run for all \
                               figures is not chosen.";

/// The headings above [`cells`].
pub(crate) const HEADINGS: [&str; 6] = ["POLICY", "FIGURES", "20 %", "25 %", "WORST", ""];

/// Returns the sentences about a run, besides its verdict.
pub(crate) fn about(judged: &JudgedFigures) -> Vec<String> {
    let JudgedFigures { joints, published } = judged;
    let totals = Totals::of(joints);
    let mut sentences: Vec<String> =
        (totals.figures > 0).then(|| compared(&totals, *published)).into_iter().collect();
    let others: Vec<String> = joints.iter().filter(|joint| joint.chosen != joint.own).map(best).collect();
    if !others.is_empty() {
        sentences.push(format!(
            "With the policy that fits each drive's figures best, {} are within 20 %: {}.",
            totals.chosen,
            others.join(", ")
        ));
    }
    sentences
}

fn best(joint: &Joint) -> String {
    format!("{} on {}", policy(joint.chosen), printable(&joint.drive))
}

pub(crate) fn judged(judged: &JudgedFigures) -> String {
    let JudgedFigures { joints, published } = judged;
    if joints.is_empty() {
        return "Not compared: no figures were published, or none were run.\n".to_owned();
    }
    let totals = Totals::of(joints);
    let total = format!(
        "{} of {} published figures and ratios are within 20 % with the drives' own policies, {} with the best \
        policy for each drive.",
        totals.own, totals.figures, totals.chosen
    );
    let mut text = format!("{}\n", paint(style::HEADING, &wrap(&total, "")));
    for line in [compared(&totals, *published), left_out_total(&totals)] {
        text += &format!("{}\n", wrap(&line, ""));
    }
    text += &format!("\n{}\n", table(joints));
    let left_out = left_out(joints);
    if !left_out.is_empty() {
        text += &format!("\n{left_out}\n");
    }
    text + &format!("\n{}\n", paint(style::FAINT, &wrap(RULE, "")))
}

fn compared(totals: &Totals, published: usize) -> String {
    let Totals { figures, fitted, own, own_predicted, .. } = totals;
    let within = match (*fitted, figures - fitted) {
        (_, 0) => format!("{own} of {figures}, all fitted: the model was adjusted to match them"),
        (0, _) => format!("{own} of {figures}, all predicted"),
        (_, predicted) => {
            format!("{} of {fitted} fitted and {own_predicted} of {predicted} predicted", own - own_predicted)
        }
    };
    format!("Compared: {figures} of {published}. Within 20 %: {within}.")
}

/// Returns how many figures are reproduced with policies that they did not decide about.
fn left_out_total(totals: &Totals) -> String {
    match totals.left_out {
        0 => "Not cross-validated: no drive has figures from two experiments.".to_owned(),
        figures => format!(
            "Cross-validated: with the policy chosen by the drive's other experiments, {} of {figures} are \
             within 20 %. The other drives have figures from only one experiment.",
            totals.left_out_within
        ),
    }
}

fn table(joints: &[Joint]) -> String {
    let mut table = plain_table(&[&["DRIVE"][..], &HEADINGS[..]].concat());
    for joint in joints {
        let mut drive = printable(&joint.drive);
        for score in &joint.policies {
            let cells = [vec![std::mem::take(&mut drive)], cells(joint, score)].concat();
            table.add_row(cells);
        }
    }
    right(&mut table, 2..6);
    trimmed(&table)
}

pub(crate) fn cells(joint: &Joint, score: &Score) -> Vec<String> {
    let marks = [("chosen", joint.chosen == score.policy), ("own", joint.own == score.policy)];
    let marks: Vec<&str> =
        marks.into_iter().filter(|(_, is)| *is && score.policy.is_some()).map(|(mark, _)| mark).collect();
    let figures = match score.figures == joint.figures {
        true => score.figures.to_string(),
        false => format!("{} of {}", score.figures, joint.figures),
    };
    vec![
        policy(score.policy).to_owned(),
        figures,
        score.within_20_percent.to_string(),
        score.within_25_percent.to_string(),
        number(score.worst_ratio),
        marks.join(", "),
    ]
}

pub(crate) fn policy(policy: Option<RmwPolicy>) -> &'static str {
    policy.map_or("-", RmwPolicy::name)
}

fn left_out(joints: &[Joint]) -> String {
    let mut table = plain_table(&["DRIVE", "LEFT OUT", "CHOSEN BY THE OTHERS", "FIGURES", "20 %", "25 %"]);
    for joint in joints {
        let mut drive = printable(&joint.drive);
        for left in &joint.left_out {
            table.add_row([
                std::mem::take(&mut drive),
                printable(&left.experiment),
                policy(left.score.policy).to_owned(),
                left.figures.to_string(),
                left.score.within_20_percent.to_string(),
                left.score.within_25_percent.to_string(),
            ]);
        }
    }
    right(&mut table, 3..6);
    if table.row_count() == 0 { String::new() } else { trimmed(&table) }
}
