//! The mechanics of a `.model`: rotation, seek times, head switch, settling.

use straddle_units::io::Nanos;

use super::fields::Fields;
use super::{Folder, ImportError};
use straddle_drive::disk::{HeadTimes, SeekCurve, Spindle};

pub(super) struct Mechanics {
    pub(super) spindle: Spindle,
    pub(super) seek: SeekCurve,
    pub(super) heads: HeadTimes,
}

/// Seek times: pairs of a distance in cylinders and a time in milliseconds.
type Points = Vec<(u32, f64)>;

pub(super) fn read(
    model: &Fields<'_>,
    folder: &Folder<'_>,
    cylinders: u32,
) -> Result<Mechanics, ImportError> {
    let fields = model.block("Mechanical Model", "dm_mech_g1")?;
    if fields.word("Access time type")? != "trackSwitchPlusRotation" {
        return Err(fields.impossible("Access time type", "only trackSwitchPlusRotation is modelled"));
    }
    let key = "Rotation speed (in rpms)";
    let rpm = fields.whole(key, 60, 100_000)?;
    let spindle =
        Spindle::from_rpm(f64::from(rpm)).ok_or_else(|| fields.impossible(key, "must be a speed"))?;
    if fields.number("Percent error in rpms")? != 0.0 {
        return Err(
            fields.impossible("Percent error in rpms", "must be 0: random rotation speeds are not supported")
        );
    }
    let longest = cylinders.saturating_sub(1).max(1);
    let (file, points) = match fields.word("Seek type")? {
        "extracted" => table(&fields, folder)?,
        kind @ ("hpl" | "hplplus10") => (fields.file().to_owned(), equation(&fields, kind, longest)?),
        kind @ ("constant" | "linear" | "curve") => {
            (fields.file().to_owned(), three_points(&fields, kind, longest)?)
        }
        _ => return Err(fields.impossible("Seek type", "is not a seek type of DiskSim")),
    };
    let seek = SeekCurve::from_table(&beyond(points, longest), longest);
    let seek = seek.map_err(|source| ImportError::Seek { file, source })?;
    let settle = fields.number("Add. write settling delay")?;
    let time = Nanos::from_millis(settle.abs()).filter(|time| time.get() < 1_000_000_000);
    let time = time.ok_or_else(|| fields.impossible("Add. write settling delay", "must be at most 1 s"))?;
    let (write_settle, write_lead) = if settle < 0.0 { (Nanos::ZERO, time) } else { (time, Nanos::ZERO) };
    let heads = HeadTimes { head_switch: fields.time("Head switch time")?, write_settle, write_lead };
    Ok(Mechanics { spindle, seek, heads })
}

/// Reads the `.seek` file: lines `distance, milliseconds`, with or without a deviation.
fn table(fields: &Fields<'_>, folder: &Folder<'_>) -> Result<(String, Points), ImportError> {
    let key = "Full seek curve";
    let file = folder.named(fields.file(), fields.get(key)?.line, fields.word(key)?)?;
    let mut points = Points::new();
    for (index, line) in folder.text(file)?.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with("Seek distances measured") {
            continue;
        }
        let mut columns = line.split(',').map(str::trim);
        let distance = columns.next().and_then(|column| column.parse().ok());
        let time = columns.next().and_then(|column| column.parse().ok());
        let (Some(distance), Some(time), 0 | 1) = (distance, time, columns.count()) else {
            let message = format!("{line:?} is not a distance, a time and an optional deviation");
            return Err(ImportError::Syntax { file: file.to_owned(), line: index + 1, message });
        };
        points.push((distance, time));
    }
    Ok((file.to_owned(), points))
}

/// Ruemmler and Wilkes's curve: proportional to the square root of the distance, then linear. The first ten
/// distances may be given one by one.
fn equation(fields: &Fields<'_>, kind: &str, longest: u32) -> Result<Points, ImportError> {
    let key = "HPL seek equation values";
    let values = fields.numbers(key)?;
    let &[divide, near, root, far, line, single] = &values[..] else {
        return Err(fields.impossible(key, "must be six numbers"));
    };
    let mut first = Vec::new();
    if kind == "hplplus10" {
        first = fields.numbers("First ten seek times")?;
        if first.len() != 10 {
            return Err(fields.impossible("First ten seek times", "must be ten times"));
        }
    } else if single >= 0.0 {
        first.push(single);
    }
    let time = |distance: u32| {
        let given = usize::try_from(distance).ok().and_then(|distance| first.get(distance.wrapping_sub(1)));
        let distance = f64::from(distance);
        let curve = if distance < divide { near + root * distance.sqrt() } else { far + line * distance };
        given.copied().unwrap_or(curve)
    };
    Ok((1..=longest).map(|distance| (distance, time(distance))).collect())
}

/// A constant time, or the times over one cylinder, on average and over all of them: with straight lines
/// between them, or by Lee's equation a + b·√(d − 1) + c·(d − 1) (Lee and Katz, 1993).
fn three_points(fields: &Fields<'_>, kind: &str, longest: u32) -> Result<Points, ImportError> {
    if kind == "constant" {
        return Ok(vec![(1, fields.milliseconds("Constant seek time")?)]);
    }
    let single = fields.milliseconds("Single cylinder seek time")?;
    let average = fields.milliseconds("Average seek time")?;
    let full = fields.milliseconds("Full strobe seek time")?;
    let third = longest / 3;
    if kind == "linear" {
        let mut points = vec![(1, single), (third, average), (longest, full)];
        points.dedup_by_key(|(distance, _)| (*distance).max(1));
        points.retain(|(distance, _)| *distance > 0);
        return Ok(points);
    }
    let cylinders = f64::from(longest) + 1.0;
    let root = (15.0 * average - 10.0 * single - 5.0 * full) / (3.0 * cylinders.sqrt());
    let line = (7.0 * single - 15.0 * average + 8.0 * full) / (3.0 * cylinders);
    let time = |distance: u32| {
        let beyond = f64::from(distance - 1);
        (single + root * beyond.sqrt() + line * beyond).max(0.0)
    };
    Ok((1..=longest).map(|distance| (distance, time(distance))).collect())
}

/// Extends the table to the longest distance, along the line through its last two points.
fn beyond(mut points: Points, longest: u32) -> Points {
    if let [.., (left, fast), (right, slow)] = points[..]
        && right < longest
        && right > left
    {
        let slope = (slow - fast) / f64::from(right - left);
        points.push((longest, (slow + slope * f64::from(longest - right)).max(0.0)));
    }
    points
}
