//! Numbers, shares and times for people.

use straddle_measure::bench::Clock;

/// Formats seconds as `1 h 14 min`, `2 min 5 s` or `7.5 s`.
pub fn duration(seconds: f64) -> String {
    let parts = |unit: f64| ((seconds / unit).floor(), seconds % unit);
    match seconds {
        _ if seconds >= 3600.0 => {
            format!("{:.0} h {:.0} min", parts(3600.0).0, (parts(3600.0).1 / 60.0).floor())
        }
        _ if seconds >= 60.0 => format!("{:.0} min {:.0} s", parts(60.0).0, parts(60.0).1.floor()),
        _ => format!("{seconds:.1} s"),
    }
}

/// Formats a number to four digits, without trailing zeros, or whole from 1000 on.
pub fn number(value: f64) -> String {
    let text = match value.abs() {
        size if size >= 1000.0 => return format!("{value:.0}"),
        size if size >= 100.0 => format!("{value:.1}"),
        size if size >= 10.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    };
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Formats a share as `+3.4 %`.
pub fn percent(share: f64) -> String {
    format!("{:+.1} %", share * 100.0)
}

/// Says where times come from.
pub(crate) const fn clock(clock: Clock) -> &'static str {
    match clock {
        Clock::Virtual => "modelled, virtual time",
        Clock::Wall => "measured",
    }
}
