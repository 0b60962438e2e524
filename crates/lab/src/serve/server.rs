//! The server: one thread that waits for clients and for the drive, and never for one client. A slow client fills its
//! own buffer, and is not read from until it has emptied it.

mod client;
mod poller;

use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::Serialize;
use straddle_drive::Profile;
use straddle_units::io::{Counters, Latency, Nanos, Requests, nanos};

use crate::media::{Served, Tear, virtio};
use crate::serve::endpoint::{Endpoint, EndpointError, Listener, Stream};
use crate::serve::engine::{Engine, Finished, Pace};
use crate::serve::nbd::Export;
use crate::vhost::{Connection, Offer};
use client::{Client, ControlClient, Gone, NbdClient, VhostClient, export};
use poller::{Event, Poller, Signals};

const TICK: Duration = Duration::from_secs(1);
/// Without delay, how long to poll for the next request before sleeping.
const SPIN: Duration = Duration::from_micros(50);
/// The passes over the active clients before the others are served. A guest that fills its rings as fast as they are
/// emptied would otherwise keep the others waiting for ever.
const MOST_PASSES: usize = 4;
/// The most clients at a time, of all kinds. Further ones wait until one has left.
const MOST_CLIENTS: usize = 64;
/// How long a server that is ending waits for requests in flight.
const DRAIN: Duration = Duration::from_secs(5);

// A client's number, from 1, is in the upper 56 bits of its tokens.
const SIGNAL: u64 = 0;
const TIMER: u64 = 1;
const LISTENERS: u64 = 16;

/// Where and how to serve.
#[derive(Clone, Debug)]
pub struct Options {
    /// Addresses for NBD.
    pub nbd: Vec<Endpoint>,
    /// Sockets for virtual machines (vhost-user).
    pub vhost_user: Vec<PathBuf>,
    /// Socket for control commands.
    pub control: Option<PathBuf>,
    /// Whether clients on other machines may connect.
    pub allow_remote: bool,
    /// How the drive's time passes.
    pub pace: Pace,
    /// What may happen to a sector at a power cut by command.
    pub tear: Tear,
    /// The signals that end the server.
    pub signals: Vec<i32>,
}

/// Why serving failed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum ServerError {
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    #[error("cannot wait for clients")]
    System(#[from] io::Error),
    #[error("the drive's store failed")]
    Store(#[source] io::Error),
}

straddle_units::error_kind! {
    ServerError: Failed;
    Self::Endpoint(error) => error.kind(),
}

/// The requests of clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Totals {
    /// The requests that were completed without an error.
    #[serde(flatten)]
    pub requests: Requests,
    /// The number of requests that failed.
    #[serde(rename = "failed_requests")]
    pub failed: u64,
    /// The number of clients that violated the protocol and were disconnected.
    #[serde(rename = "broken_clients")]
    pub broken: u64,
}

/// Why the server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// SIGINT or SIGTERM.
    Signal,
    /// The `quit` command.
    Quit,
    /// The power was cut.
    PowerCut,
}

/// The state of the server at one moment.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Snapshot<'a> {
    /// How long the drive has been served, in nanoseconds of real time.
    #[serde(rename = "elapsed_ns", serialize_with = "nanos")]
    #[schemars(with = "Nanos")]
    pub elapsed: Duration,
    /// The number of clients that are connected.
    pub clients: usize,
    /// The number of requests received but not yet answered.
    pub outstanding: usize,
    /// Requests that were completed.
    #[serde(flatten)]
    pub totals: Totals,
    /// How much later replies were sent than the model's completion times, in nanoseconds of real time;
    /// absent if there were no replies, or if replies are not delayed.
    #[serde(skip_serializing_if = "Latency::is_empty")]
    pub lateness: &'a Latency,
    /// Counters from inside the drive.
    pub counters: &'a Counters,
    /// Whether the drive's power has been cut.
    #[serde(rename = "power_cut")]
    pub is_cut: bool,
}

#[derive(Clone, Copy, Debug)]
enum Purpose {
    Nbd,
    Vhost,
    Control,
}

/// A drive with the server's clients.
pub struct Server {
    engine: Engine,
    export: Export,
    offer: Offer,
    tear: Tear,
    listeners: Vec<(Purpose, Listener)>,
    /// Whether no connections are accepted: there are as many clients, or descriptors, as there may be.
    is_deaf: bool,
    clients: HashMap<u64, Client>,
    next_client: u64,
    poller: Poller,
    signals: Signals,
    started: Instant,
    totals: Totals,
    no_delay: bool,
    busy: bool,
    ending: Option<(Ending, Instant)>,
    finished: Vec<Finished>,
    turn: Turn,
}

#[derive(Default)]
struct Turn {
    touched: Vec<u64>,
    /// Clients to serve again, after all others.
    again: Vec<u64>,
}

impl Server {
    /// Starts listening. Clients are served from [`Server::run`] on.
    pub fn new(profile: &Profile, mut served: Served, options: &Options) -> Result<Self, ServerError> {
        if options.control.is_some() {
            served.keep_for_cut();
        }
        raise_open_files();
        let poller = Poller::new(TIMER)?;
        let signals = Signals::watch(&options.signals)?;
        // After the handlers, which remove the sockets.
        let mut listeners = Vec::new();
        for endpoint in &options.nbd {
            listeners.push((Purpose::Nbd, endpoint.listen(options.allow_remote)?));
        }
        let sockets = options.vhost_user.iter().map(|path| (Purpose::Vhost, path));
        for (purpose, path) in sockets.chain(options.control.iter().map(|path| (Purpose::Control, path))) {
            listeners.push((purpose, Endpoint::Unix(path.clone()).listen(false)?));
        }
        poller.add(&signals.pipe, SIGNAL)?;
        for (token, (_, listener)) in (LISTENERS..).zip(&listeners) {
            poller.add(&listener.socket, token)?;
        }
        Ok(Self {
            export: export(profile),
            offer: Offer { queues: 4, event_index: true, ..virtio::offer(&served) },
            engine: Engine::new(served, options.pace),
            tear: options.tear,
            listeners,
            is_deaf: false,
            clients: HashMap::new(),
            next_client: 1,
            poller,
            signals,
            started: Instant::now(),
            totals: Totals::default(),
            no_delay: options.pace == Pace::NoDelay,
            busy: false,
            ending: None,
            finished: Vec::new(),
            turn: Turn::default(),
        })
    }

    /// The addresses for NBD clients. Port 0 is replaced by the assigned port.
    pub fn nbd_uris(&self) -> impl Iterator<Item = String> {
        let nbd = self.listeners.iter().filter(|(purpose, _)| matches!(purpose, Purpose::Nbd));
        nbd.map(|(_, listener)| listener.nbd_uri.clone())
    }

    /// Serves until asked to end, or until the power is cut. Calls `report` once a second.
    pub fn run(&mut self, mut report: Option<&mut dyn FnMut(&Snapshot<'_>)>) -> Result<Ending, ServerError> {
        let mut next_tick = Instant::now() + TICK;
        let mut events = Vec::new();
        loop {
            let pause = if self.turn.touched.is_empty() { self.engine.pause() } else { Some(Duration::ZERO) };
            let tick = report.is_some().then(|| next_tick.saturating_duration_since(Instant::now()));
            let until = self.ending.map(|(_, until)| until.saturating_duration_since(Instant::now()));
            // Without delay, the next request usually comes sooner than this thread could be woken.
            let busy = std::mem::take(&mut self.busy) && self.no_delay;
            if pause == Some(Duration::ZERO) {
                self.poller.poll(&mut events)?;
            } else {
                self.poller.arm(pause)?;
                if !(busy && self.poller.spin(SPIN, &mut events)?) {
                    self.poller.wait(tick.into_iter().chain(until).min(), &mut events)?;
                }
            }
            for event in events.drain(..) {
                self.happened(event)?;
            }
            self.turn()?;
            if self.engine.served.is_cut() {
                self.clients.clear();
                return Ok(Ending::PowerCut);
            }
            if let Some((ending, until)) = self.ending
                && ((self.engine.outstanding() == 0 && !self.owes()) || Instant::now() >= until)
            {
                self.clients.clear();
                self.engine.served.sync().map_err(ServerError::Store)?;
                return Ok(ending);
            }
            if let Some(report) = &mut report
                && Instant::now() >= next_tick
            {
                next_tick += TICK;
                report(&self.snapshot());
            }
        }
    }

    /// The current state.
    pub fn snapshot(&self) -> Snapshot<'_> {
        Snapshot {
            elapsed: self.started.elapsed(),
            clients: self.clients.len(),
            outstanding: self.engine.outstanding(),
            totals: self.totals,
            lateness: &self.engine.lateness,
            counters: self.engine.served.counters(),
            is_cut: self.engine.served.is_cut(),
        }
    }

    /// Whether an NBD client is still connected, and so may still have to be sent bytes.
    fn owes(&self) -> bool {
        self.clients.values().any(|client| matches!(client, Client::Nbd(_)))
    }

    fn happened(&mut self, event: Event) -> Result<(), ServerError> {
        match event.token {
            SIGNAL => {
                let mut bytes = [0; 16];
                let _ = rustix::io::read(&self.signals.pipe, &mut bytes[..]);
                self.end(Ending::Signal);
            }
            TIMER => {}
            token if token < 256 => self.accept(token)?,
            token => {
                let id = token >> 8;
                touch(&mut self.turn.touched, id);
                if let Err(gone) = self.read(id, event) {
                    self.let_go(id, gone);
                }
            }
        }
        Ok(())
    }

    /// Ends when all requests in flight are done. A second call ends at once.
    fn end(&mut self, ending: Ending) {
        let now = Instant::now();
        if self.ending.is_some() {
            self.ending = Some((ending, now));
            return;
        }
        self.ending = Some((ending, now + DRAIN));
        for (_, listener) in self.listeners.drain(..) {
            self.poller.remove(&listener.socket);
        }
        for (id, client) in &mut self.clients {
            if let Client::Nbd(client) = client {
                client.session.end();
            }
            touch(&mut self.turn.touched, *id);
        }
    }

    fn accept(&mut self, token: u64) -> Result<(), ServerError> {
        let index = usize::try_from(token - LISTENERS).unwrap_or(usize::MAX);
        let Some((purpose, listener)) = self.listeners.get(index) else { return Ok(()) };
        let purpose = *purpose;
        let stream = match listener.accept() {
            Ok(Some(stream)) => stream,
            // A client that disconnects before it is accepted is not an error.
            Ok(None) => return Ok(()),
            // No descriptors are left. Accepting would be tried again at once, without end.
            Err(_) => return self.listen(false),
        };
        let (id, Some(client)) = (self.next_client, self.welcome(purpose, stream)) else { return Ok(()) };
        let fd = match &client {
            Client::Nbd(client) => client.stream.0.as_fd(),
            Client::Vhost(client) => client.connection.socket(),
            Client::Control(client) => client.stream.0.as_fd(),
        };
        self.poller.add(fd, id << 8)?;
        self.next_client += 1;
        self.clients.insert(id, client);
        touch(&mut self.turn.touched, id);
        if self.clients.len() >= MOST_CLIENTS { self.listen(false) } else { Ok(()) }
    }

    fn listen(&mut self, listens: bool) -> Result<(), ServerError> {
        for (token, (_, listener)) in (LISTENERS..).zip(&self.listeners) {
            self.poller.change(&listener.socket, token, listens, false)?;
        }
        self.is_deaf = !listens;
        Ok(())
    }

    fn welcome(&self, purpose: Purpose, stream: Stream) -> Option<Client> {
        Some(match purpose {
            Purpose::Nbd => Client::Nbd(Box::new(NbdClient::new(stream))),
            Purpose::Control => Client::Control(ControlClient::new(stream)),
            Purpose::Vhost => {
                let connection = Connection::new(stream.0.into(), self.offer.clone()).ok()?;
                Client::Vhost(Box::new(VhostClient::new(connection)))
            }
        })
    }

    fn read(&mut self, id: u64, event: Event) -> Result<(), Gone> {
        let commands = match self.clients.get_mut(&id) {
            None => return Ok(()),
            Some(_) if event.hung_up && !event.readable => return Err(Gone::Left),
            Some(Client::Nbd(client)) if event.readable => return client.read(),
            Some(Client::Vhost(client)) if event.readable => return client.read(event.token, &self.poller),
            Some(Client::Control(client)) if event.readable => client.read()?,
            Some(_) => return Ok(()),
        };
        for command in commands {
            let answer = self.command(&command);
            if let Some(Client::Control(client)) = self.clients.get(&id) {
                client.answer(answer)?;
            }
        }
        Ok(())
    }

    fn command(&mut self, command: &str) -> String {
        let words: Vec<&str> = command.split_whitespace().collect();
        let refused = |reason: &str| serde_json::json!({ "error": reason }).to_string();
        match &words[..] {
            ["stats"] => serde_json::to_string(&self.snapshot()).unwrap_or_default(),
            ["quit"] => {
                self.end(Ending::Quit);
                serde_json::json!({ "quit": true }).to_string()
            }
            ["cut", seed] => {
                let Ok(seed) = seed.parse() else { return refused("the seed is not a whole number") };
                let mut finished = Vec::new();
                let cut = self.engine.advance(&mut finished).map_err(Into::into);
                match cut.and_then(|()| self.engine.served.cut(seed, self.tear)) {
                    Ok(()) => serde_json::json!({ "cut": true, "seed": seed }).to_string(),
                    Err(error) => refused(&error.to_string()),
                }
            }
            _ => refused("the commands are: stats, cut SEED, quit"),
        }
    }

    /// Until there is nothing more to do or the other clients have waited for long enough.
    fn turn(&mut self) -> Result<(), ServerError> {
        for _ in 0..MOST_PASSES {
            self.turn.again.clear();
            // Further clients get events while these are served.
            let mut index = 0;
            while let Some(id) = self.turn.touched.get(index).copied() {
                self.pump(id);
                index += 1;
            }
            self.finished.clear();
            self.engine.advance(&mut self.finished).map_err(ServerError::Store)?;
            let finished = std::mem::take(&mut self.finished);
            finished.iter().for_each(|finished| self.deliver(finished));
            let mut index = 0;
            while let Some(id) = self.turn.touched.get(index).copied() {
                self.flush(id);
                index += 1;
            }
            self.engine.sent(&finished);
            let idle = finished.is_empty();
            self.busy |= !idle;
            self.finished = finished;
            if idle || self.engine.served.is_cut() {
                self.turn.touched.clear();
                self.turn.touched.append(&mut self.turn.again);
                break;
            }
        }
        Ok(())
    }

    fn pump(&mut self, id: u64) {
        let Self { clients, engine, export, totals, .. } = self;
        let result = match clients.get_mut(&id) {
            Some(Client::Nbd(client)) => client.pump(id, export, engine, totals).map(|()| false),
            // A guest that may continue while the server ends would keep it from ending.
            Some(Client::Vhost(client)) if self.ending.is_none() => client.pump(id, engine, totals),
            _ => Ok(false),
        };
        match result {
            // The guest has queued further requests: serve the others first, and then this client again.
            Ok(true) => self.turn.again.push(id),
            Ok(false) => {}
            Err(gone) => self.let_go(id, gone),
        }
    }

    fn deliver(&mut self, finished: &Finished) {
        let id = finished.job.owner;
        if finished.failed {
            self.totals.failed += 1;
        } else {
            self.totals.requests.add(finished.job.operation, finished.job.length);
        }
        touch(&mut self.turn.touched, id);
        let result = match self.clients.get_mut(&id) {
            Some(Client::Nbd(client)) => {
                client.complete(finished);
                Ok(())
            }
            Some(Client::Vhost(client)) => client.complete(finished, &self.engine),
            _ => Ok(()),
        };
        if let Err(gone) = result {
            self.let_go(id, gone);
        }
    }

    fn flush(&mut self, id: u64) {
        let result = match self.clients.get_mut(&id) {
            Some(Client::Nbd(client)) => client.flush(id << 8, &self.poller, &self.engine),
            Some(Client::Vhost(client)) => client.flush(),
            _ => Ok(()),
        };
        if let Err(gone) = result {
            self.let_go(id, gone);
        }
    }

    fn let_go(&mut self, id: u64, gone: Gone) {
        self.totals.broken += u64::from(gone == Gone::Broken);
        if let Some(Client::Vhost(mut client)) = self.clients.remove(&id) {
            client.unwatch(&self.poller);
        }
        if std::mem::take(&mut self.is_deaf) {
            // Where that fails, the server accepts no client until the next one disconnects.
            self.is_deaf = self.listen(true).is_err();
        }
    }
}

/// Raises the limit of open files to the maximum: a virtual machine needs two dozen.
fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        // If that fails, the current limit is enough for most uses.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}

fn touch(touched: &mut Vec<u64>, id: u64) {
    if !touched.contains(&id) {
        touched.push(id);
    }
}
