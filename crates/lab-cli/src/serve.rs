//! `straddle serve`: serves a modelled drive to virtual machines and other programs, in real time.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use schemars::JsonSchema;
use serde::Serialize;
use straddle_drive::Profile;
use straddle_lab::media::{Cut, Served, Store};
use straddle_lab::serve::{Ending, Endpoint, Options, Pace, Server, ServerError, Snapshot, Totals};
use straddle_measure::bench::float;
use straddle_units::ByteCount;
use straddle_units::io::Requests;

use crate::recording::{Modelled, tear};
use straddle_cli::args::{SchemaOf, ServeArguments};
use straddle_cli::exit::{Exit, UsageError};
use straddle_cli::output::{self, printable};
use straddle_cli::progress::ending;
use straddle_cli::target::note_unfinished;
use straddle_cli::view::json::Document;
use straddle_cli::view::text::wrap;

pub(crate) fn run(arguments: &ServeArguments) -> Result<Exit> {
    let drive = arguments.target.modelled("serve")?;
    let profile = &drive.profile;
    arguments.store.iter().for_each(|path| note_unfinished(path));
    let store = match &arguments.store {
        Some(path) => Store::file(path, profile.claims.capacity)?,
        None => Store::memory(profile.claims.capacity)
            .context("the contents of the drive cannot be kept in memory")?,
    };
    let cut =
        arguments.cut_after.map(|after| Cut { after, seed: arguments.seed, tear: tear(arguments.tear) });
    let nbd = arguments.nbd.iter().map(|text| endpoint("--nbd", text)).collect::<Result<_, _>>()?;
    let control = arguments.control.as_deref().map(|text| match endpoint("--control", text)? {
        Endpoint::Unix(path) => Ok(path),
        Endpoint::Tcp(address) => {
            Err(UsageError(format!("--control must have the form unix:PATH, not {address}")))
        }
    });
    let options = Options {
        nbd,
        vhost_user: arguments.vhost_user.clone(),
        control: control.transpose()?,
        allow_remote: arguments.allow_remote,
        pace: if arguments.no_delay { Pace::NoDelay } else { Pace::Real(arguments.speed) },
        tear: tear(arguments.tear),
        signals: ending(),
    };
    let mut served = Served::new(profile, store, cut);
    let drives = [(drive.to_string(), drive.to_string(), &**profile)];
    let stores: Vec<&Path> = arguments.store.iter().map(PathBuf::as_path).collect();
    let recording = arguments.record.as_deref().map(|path| Modelled::begin(path, &drives, &stores));
    let recording = recording.transpose()?;
    if let Some(recording) = &recording {
        served.watch(recording.watch(0));
    }
    let mut server = Server::new(profile, served, &options)?;
    announce(arguments, profile, &server);
    let ended = serve(&mut server);
    if let Some(recording) = recording {
        recording.finish()?;
    }
    let ending = ended?;
    let snapshot = server.snapshot();
    let report =
        ServeReport { target: &drive.to_string(), title: &profile.title, ending, snapshot: &snapshot };
    if arguments.json {
        Document::of(SchemaOf::Serve, report).print()?;
    } else {
        output::print(&summary(&report))?;
    }
    if ending == Ending::PowerCut {
        output::complain("the power was cut, so only the data on the medium survives");
        return Ok(Exit::Failed);
    }
    Ok(Exit::Success)
}

fn endpoint(option: &str, text: &str) -> Result<Endpoint, UsageError> {
    text.parse().map_err(|error| UsageError(format!("{option}: {text}: {error}")))
}

/// Serves, with a status line if stderr is a terminal.
fn serve(server: &mut Server) -> Result<Ending, ServerError> {
    if !std::io::stderr().is_terminal() {
        return server.run(None);
    }
    let mut before = None;
    let mut tell = |now: &Snapshot<'_>| {
        let line = line(now, before);
        before = Some((now.elapsed, now.totals));
        // The status line is not essential, so errors in writing it are ignored.
        let _ = write!(std::io::stderr(), "\r{line}\x1b[K");
    };
    let ending = server.run(Some(&mut tell));
    let _ = writeln!(std::io::stderr());
    ending
}

fn announce(arguments: &ServeArguments, profile: &Profile, server: &Server) {
    let mut places: Vec<String> = server.nbd_uris().collect();
    places.extend(arguments.vhost_user.iter().map(|path| format!("vhost-user {}", path.display())));
    let title = &profile.title;
    let line = format!("serving {title} ({}) at {}", arguments.target, places.join(", "));
    output::complain(&printable(&line));
    if let Some(after) = arguments.cut_after {
        output::complain(&format!(
            "the power will be cut after {after} requests, with seed {}",
            arguments.seed
        ));
    }
}

/// What `straddle serve --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ServeReport<'a> {
    /// The drive as named on the command line.
    target: &'a str,
    /// Manufacturer, model and size.
    title: &'a str,
    /// Why serving ended.
    ending: Ending,
    #[serde(flatten)]
    snapshot: &'a Snapshot<'a>,
}

fn line(now: &Snapshot<'_>, before: Option<(Duration, Totals)>) -> String {
    let (since, earlier) = before.unwrap_or_default();
    let seconds = now.elapsed.saturating_sub(since).as_secs_f64();
    let (requests, earlier) = (now.totals.requests, earlier.requests);
    let bytes = |requests: Requests| requests.read_bytes + requests.write_bytes;
    let bytes = rate(bytes(requests) - bytes(earlier), seconds);
    let requests = rate(requests.count() - earlier.count(), seconds);
    let speed = match bytes {
        slow if slow > 0.0 && slow < 1e5 => format!("{:.1} KiB/s", slow / 1024.0),
        fast => format!("{:.1} MB/s", fast / 1e6),
    };
    let mut line =
        format!("{requests:.0} IOPS  {speed}  queue {}  rmw {}", now.outstanding, now.counters.rmw_reads);
    let late = now.lateness;
    if late.count() > 0 {
        let (half, most) = (late.quantile(0.5), late.quantile(0.99));
        let _ = write!(line, "  late p50 {half}, p99 {most}, max {}", late.max());
    }
    line
}

fn summary(report: &ServeReport<'_>) -> String {
    let snapshot = report.snapshot;
    let (totals, counters) = (snapshot.totals, snapshot.counters);
    let requests = totals.requests;
    let ending = match report.ending {
        Ending::Signal => "ended by a signal",
        Ending::Quit => "ended by command",
        Ending::PowerCut => "ended by a power cut",
    };
    let (title, target) = (printable(report.title), printable(report.target));
    let mut text = format!(
        "{title} ({target}), served for {:.1} s, {ending}: {} reads ({}), {} writes ({}), {} flushes, {} discards",
        snapshot.elapsed.as_secs_f64(),
        requests.reads,
        ByteCount::new(requests.read_bytes),
        requests.writes,
        ByteCount::new(requests.write_bytes),
        requests.flushes,
        requests.discards,
    );
    if totals.failed > 0 {
        let _ = write!(text, "; {} failed", totals.failed);
    }
    if totals.broken > 0 {
        let _ = write!(text, "; {} clients violated the protocol", totals.broken);
    }
    text = wrap(&text, "");
    let inside = format!(
        "inside the drive: {} read-modify-writes, {} cache hits, {} writes merged with others, {} writes to \
         the medium, {} seeks, {:.1} revolutions waited",
        counters.rmw_reads,
        counters.cache_hits,
        counters.merged_writes,
        counters.destages,
        counters.seeks,
        counters.revolutions_waited(),
    );
    let _ = write!(text, "\n{}\n", wrap(&inside, ""));
    let late = snapshot.lateness;
    if late.count() > 0 {
        let [p50, p90, p99, p999] = [0.5, 0.9, 0.99, 0.999].map(|share| late.quantile(share));
        let figures = format!(
            "delay of replies beyond the model's time: mean {}, p50 {p50}, p90 {p90}, p99 {p99}, p99.9 \
             {p999}, max {}",
            late.mean(),
            late.max()
        );
        let _ = writeln!(text, "{}", wrap(&figures, ""));
    }
    text
}

fn rate(number: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { float(number) / seconds } else { 0.0 }
}
