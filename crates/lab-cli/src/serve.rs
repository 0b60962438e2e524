//! `straddle serve`: serves a modelled drive to virtual machines and other programs, in real time.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::Result;
use straddle_drive::Profile;
use straddle_lab::media::{Cut, Served, Store};
use straddle_lab::serve::{Ending, Endpoint, Options, Pace, Server, ServerError, Snapshot};

use crate::args::{SchemaOf, ServeArguments};
use crate::exit::{Exit, UsageError};
use crate::interrupt::ending;
use crate::output::{self, printable};
use crate::recording::{Modelled, tear};
use crate::unfinished;
use crate::view::json::Document;
use crate::view::json::serve::{Serve, ServeReport};
use crate::view::text;

pub(crate) fn run(arguments: &ServeArguments) -> Result<Exit> {
    let drive = arguments.target.modelled("serve")?;
    let profile = &drive.profile;
    arguments.store.iter().for_each(|path| unfinished::note(path));
    let store = match &arguments.store {
        Some(path) => Store::file(path, profile.claims.capacity)?,
        None => Store::memory(profile.claims.capacity),
    };
    let cut =
        arguments.cut_after.map(|after| Cut { after, seed: arguments.seed, tear: tear(arguments.tear) });
    let nbd = arguments.nbd.iter().map(|text| endpoint("--nbd", text)).collect::<Result<_, _>>()?;
    let control = arguments.control.as_deref().map(|text| endpoint("--control", text)).transpose()?;
    let control = control.map(|endpoint| match endpoint {
        Endpoint::Unix(path) => Ok(path),
        Endpoint::Tcp(address) => Err(UsageError(format!("--control: {address}: not unix:PATH"))),
    });
    let options = Options {
        nbd,
        vhost_user: arguments.vhost_user.clone(),
        control: control.transpose()?,
        allow_remote: arguments.allow_remote,
        max_clients: arguments.max_clients,
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
    let most = arguments.max_clients;
    server.on_full(move || {
        output::complain(&format!("{most} clients are connected: another one was rejected (--max-clients)"));
    });
    let ended = serve(&mut server);
    if let Some(recording) = recording {
        recording.finish()?;
    }
    let ending = ended?;
    let snapshot = server.snapshot();
    let serve = Serve { target: &drive.to_string(), profile, ending, snapshot };
    if arguments.json {
        Document::of(SchemaOf::Serve, ServeReport::of(&serve)).print()?;
    } else {
        output::print(&text::serve::summary(&serve))?;
    }
    if ending == Ending::PowerCut {
        output::complain("the power was cut: only what was on the medium is left");
        return Ok(Exit::Failed);
    }
    Ok(Exit::Success)
}

/// Parses an address to listen on.
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
        let line = text::serve::line(now, before);
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
        output::complain(&format!("the power fails after {after} requests; seed {}", arguments.seed));
    }
}
