//! Waits for the next event: of a client, a signal, or the drive's timer.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags};
use signal_hook::{SigId, low_level};

const EVENTS: usize = 64;

#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub(super) token: u64,
    pub(super) readable: bool,
    /// The source can never be written to again.
    pub(super) hung_up: bool,
}

pub(super) struct Poller {
    epoll: OwnedFd,
    /// Has a finer resolution than a timeout, and no slack.
    timer: OwnedFd,
    armed: bool,
    events: Vec<epoll::Event>,
}

impl Poller {
    /// Creates a poller that waits only for the timer, whose events have this token.
    pub(super) fn new(timer_token: u64) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let timer = rustix::time::timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
        )?;
        let poller = Self { epoll, timer, armed: false, events: Vec::with_capacity(EVENTS) };
        poller.add(&poller.timer, timer_token)?;
        Ok(poller)
    }

    pub(super) fn add(&self, source: impl AsFd, token: u64) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, source, epoll::EventData::new_u64(token), epoll::EventFlags::IN)?)
    }

    /// Once per change (edge-triggered), so that the source need not be read.
    pub(super) fn add_edges(&self, source: impl AsFd, token: u64) -> io::Result<()> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        Ok(epoll::add(&self.epoll, source, epoll::EventData::new_u64(token), flags)?)
    }

    pub(super) fn change(&self, source: impl AsFd, token: u64, read: bool, write: bool) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, source, epoll::EventData::new_u64(token), flags(read, write))?)
    }

    pub(super) fn remove(&self, source: impl AsFd) {
        // A source that is not there need not be removed.
        let _ = epoll::delete(&self.epoll, source);
    }

    pub(super) fn arm(&mut self, after: Option<Duration>) -> io::Result<()> {
        if after.is_none() && !self.armed {
            return Ok(());
        }
        self.armed = after.is_some();
        // Zero would stop the timer.
        let value = after.map_or(Duration::ZERO, |after| after.max(Duration::from_nanos(1)));
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let spec = Itimerspec { it_interval: zero, it_value: timespec(value) };
        Ok(rustix::time::timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &spec).map(|_| ())?)
    }

    pub(super) fn poll(&mut self, happened: &mut Vec<Event>) -> io::Result<()> {
        self.take(Some(&timespec(Duration::ZERO)), happened)
    }

    /// Polls for events for at most `most`, without sleeping. Returns whether there were any.
    pub(super) fn spin(&mut self, most: Duration, happened: &mut Vec<Event>) -> io::Result<bool> {
        let begun = Instant::now();
        loop {
            self.poll(happened)?;
            if !happened.is_empty() || begun.elapsed() >= most {
                return Ok(!happened.is_empty());
            }
            std::thread::yield_now();
        }
    }

    pub(super) fn wait(&mut self, most: Option<Duration>, happened: &mut Vec<Event>) -> io::Result<()> {
        // Whole milliseconds, which every kernel supports.
        let most = most.map(|most| {
            let millis = u64::try_from(most.as_millis()).unwrap_or(u64::MAX).saturating_add(1).min(60_000);
            timespec(Duration::from_millis(millis))
        });
        self.take(most.as_ref(), happened)
    }

    fn take(&mut self, most: Option<&Timespec>, happened: &mut Vec<Event>) -> io::Result<()> {
        self.events.clear();
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), most) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        happened.extend(self.events.drain(..).map(|event| Event {
            token: event.data.u64(),
            readable: { event.flags }.contains(epoll::EventFlags::IN),
            hung_up: { event.flags }.intersects(epoll::EventFlags::HUP | epoll::EventFlags::ERR),
        }));
        Ok(())
    }
}

fn flags(read: bool, write: bool) -> epoll::EventFlags {
    let mut flags = epoll::EventFlags::empty();
    flags.set(epoll::EventFlags::IN, read);
    flags.set(epoll::EventFlags::OUT, write);
    flags
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}

pub(super) struct Signals {
    pub(super) pipe: UnixStream,
    ids: Vec<SigId>,
}

impl Signals {
    pub(super) fn watch(ending: &[i32]) -> io::Result<Self> {
        let (pipe, sender) = UnixStream::pair()?;
        pipe.set_nonblocking(true)?;
        let mut signals = Self { pipe, ids: Vec::new() };
        for signal in ending {
            signals.ids.push(low_level::pipe::register(*signal, sender.try_clone()?)?);
        }
        Ok(signals)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for id in self.ids.drain(..) {
            low_level::unregister(id);
        }
    }
}
