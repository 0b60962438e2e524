//! A file or device as a target of workloads.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::bench::{Clock, Description, Surface, Target, TargetError};
use rustix::io::{Errno, ReadWriteFlags};
use straddle_units::io::{Completion, Nanos, Operation, Request, RequestId, Time};
use straddle_units::{ByteCount, ByteOffset, Span};

use crate::real::journal::{Kept, Pending};
use crate::real::memory::Memory;
use crate::real::open::Opened;
use crate::real::ring::{Place, Ring};

pub(crate) enum Writes {
    Nothing,
    /// The previous contents of areas, in ascending order, which a journal holds. Only these are written.
    Kept(Kept),
    /// Random bytes from this seed, anywhere in these areas of a target made for it or given up.
    Random(Vec<Span>, u64),
}

/// How requests are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Requests at a time (queue depth): pread and pwrite for one, io_uring for more.
    pub depth: u32,
    /// The largest request, in bytes.
    pub largest: u64,
}

/// Why a target cannot be measured.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum RealError {
    #[error("{path}: cannot read {length} bytes at byte {offset}")]
    Read { path: String, offset: u64, length: u64, source: io::Error },
    #[error("areas can be prepared only with one request at a time")]
    Depth,
    #[error("the results of outstanding requests are unknown")]
    OnTheirWay,
    #[error("io_uring cannot be used; measure with one request at a time (--queue-depth 1)")]
    Ring(#[source] io::Error),
}

straddle_units::error_kind!(RealError: Failed);

/// The least size of the buffer of random bytes from which all writes are made.
const RANDOM: usize = 1 << 20;

enum Engine {
    Serial(Box<Serial>),
    Ring(Box<Ring>),
}

pub(crate) struct Real {
    description: Description,
    pub(crate) opened: Opened,
    engine: Engine,
    /// Where writes are allowed, in ascending order; with kept contents, one piece of memory per area.
    areas: Vec<Span>,
    kept: bool,
    /// Nothing is written, and each outstanding request has its own place in memory.
    only_read: bool,
    largest: usize,
    begun: Instant,
    stop: Arc<AtomicBool>,
    /// The outstanding requests, by id: these are below the queue depth.
    requests: Vec<Option<Request>>,
    done: VecDeque<Completion>,
    /// Requests that were sent, to compare with the device's own count.
    pub(crate) sent: u64,
    unwritten: Option<io::Error>,
}

const SECTOR: usize = 512;
const CHUNK: usize = 1 << 20;

impl Real {
    /// Takes requests after [`with`](Self::with). Once `stop` is true, they are refused
    /// ([`TargetError::Interrupted`]).
    pub(crate) fn new(
        opened: Opened,
        title: String,
        settings: Settings,
        stop: Arc<AtomicBool>,
    ) -> Result<Self, RealError> {
        let depth = usize::try_from(settings.depth).unwrap_or(1).max(1);
        let engine = if settings.depth > 1 {
            Engine::Ring(Box::new(Ring::new(&opened.file, settings.depth).map_err(RealError::Ring)?))
        } else {
            Engine::Serial(Box::new(Serial::new(&opened.file).map_err(RealError::Ring)?))
        };
        let name = opened.path.display().to_string();
        Ok(Self {
            description: Description { name, title, clock: Clock::Wall },
            opened,
            engine,
            areas: Vec::new(),
            kept: false,
            only_read: true,
            largest: usize::try_from(settings.largest).unwrap_or(RANDOM),
            begun: Instant::now(),
            stop,
            requests: vec![None; depth],
            done: VecDeque::with_capacity(depth),
            sent: 0,
            unwritten: None,
        })
    }

    pub(crate) fn with(mut self, writes: Writes) -> Self {
        self.only_read = matches!(writes, Writes::Nothing);
        self.kept = matches!(writes, Writes::Kept(_));
        let mut memory: Vec<Memory>;
        (self.areas, memory) = match writes {
            Writes::Nothing => (Vec::new(), Vec::new()),
            Writes::Kept(kept) => kept.into_areas().into_iter().unzip(),
            Writes::Random(areas, seed) => (areas, vec![Memory::random(self.largest.max(RANDOM), seed)]),
        };
        // The last piece receives what is read.
        let places = if self.only_read { self.requests.len() } else { 1 };
        memory.push(Memory::new(self.largest.saturating_mul(places)));
        match &mut self.engine {
            Engine::Serial(serial) => serial.memory = memory,
            Engine::Ring(ring) => ring.give(memory),
        }
        self.begun = Instant::now();
        self
    }

    pub(crate) fn depth(&self) -> u64 {
        self.requests.len() as u64
    }

    /// A drive may answer for discarded or never written sectors without reading its medium.
    pub(crate) fn is_blank(&self) -> bool {
        self.kept
            && self.memory().is_some_and(|memory| {
                memory.iter().take(self.areas.len()).all(|piece| piece.bytes().iter().all(|byte| *byte == 0))
            })
    }

    pub(crate) fn zeroes(&self, span: Span) -> Vec<Span> {
        let pieces = if self.kept { self.memory().unwrap_or_default() } else { &[] };
        let part = |(area, piece): (&Span, &Memory)| {
            let part = area.common(span)?;
            let from = usize::try_from(part.start().checked_since(area.start())?.get()).ok()?;
            let bytes = piece.bytes().get(from..)?.get(..usize::try_from(part.len().get()).ok()?)?;
            bytes.iter().all(|byte| *byte == 0).then_some(part)
        };
        self.areas.iter().zip(pieces).filter_map(part).collect()
    }

    /// In ascending order. Another program has made each difference, and none is reverted.
    pub(crate) fn changed(&mut self) -> Result<Vec<Span>, RealError> {
        self.drain();
        let on_their_way = || RealError::OnTheirWay;
        let pieces = if self.kept { self.memory().ok_or_else(on_their_way)? } else { &[] };
        let mut changed = Vec::new();
        for (area, piece) in self.areas.iter().zip(pieces) {
            let start = area.start().get();
            // A part that was cut off counts as changed, also during the comparison.
            let reaches = || self.opened.length().saturating_sub(start).min(area.len().get());
            let mut there = reaches();
            while let Some(rest) = Span::new(area.start(), ByteCount::new(there)) {
                match read_area(&self.opened, rest) {
                    Ok(now) => {
                        differing(start, now.bytes(), &piece.bytes()[..now.bytes().len()], &mut changed);
                        break;
                    }
                    Err(_) if reaches() < there => there = reaches(),
                    Err(error) => return Err(error),
                }
            }
            if there < area.len().get() {
                add(&mut changed, start + there, area.len().get() - there);
            }
        }
        Ok(changed)
    }

    pub(crate) fn take_unwritten(&mut self) -> Option<io::Error> {
        self.unwritten.take()
    }

    fn drain(&mut self) {
        let Self { engine: Engine::Ring(ring), requests, unwritten, .. } = self else { return };
        let ended = ring.drain(|id, done| {
            if let Some(request) = taken(requests, id) {
                let _ = completed(done, &request, unwritten);
            }
        });
        if let Err(error) = ended {
            unwritten.get_or_insert(error);
        }
    }

    /// It is writable once a journal holds it.
    pub(crate) fn read(&self, span: Span, pending: &mut Pending) -> Result<(), RealError> {
        pending.read(&self.opened, span, &self.areas)
    }

    pub(crate) fn admit(&mut self, kept: Kept) -> Result<(), RealError> {
        let (true, Engine::Serial(serial)) = (self.kept, &mut self.engine) else {
            return Err(RealError::Depth);
        };
        for (span, memory) in kept.into_areas() {
            let index = self.areas.partition_point(|area| area.start() < span.start());
            serial.memory.insert(index, memory);
            self.areas.insert(index, span);
        }
        Ok(())
    }

    fn memory(&self) -> Option<&[Memory]> {
        match &self.engine {
            Engine::Serial(serial) => Some(&serial.memory),
            Engine::Ring(ring) => ring.memory(),
        }
    }

    fn check_end(&self, request: &Request) -> io::Result<()> {
        if !self.opened.is_whole() {
            return Err(io::Error::other("the file has been truncated, so a write would extend it"));
        }
        let end = request.offset.get().checked_add(request.length.get());
        if end.is_none_or(|end| end > self.opened.size) {
            return Err(io::Error::other("the write ends past the end of the target"));
        }
        Ok(())
    }

    /// Where the bytes of a request are in memory; an error if it may not be sent.
    fn places(&self, request: &Request) -> io::Result<Vec<Place>> {
        match request.operation {
            Operation::Flush => return Ok(Vec::new()),
            Operation::Discard => return Err(Errno::OPNOTSUPP.into()),
            Operation::Read => {
                let length = u32::try_from(request.length.get()).map_err(|_| Errno::INVAL)?;
                // Each outstanding read has a slot of its own, as long as the largest request.
                let slot =
                    if self.only_read { usize::try_from(request.id.0).unwrap_or(usize::MAX) } else { 0 };
                let from = slot.checked_mul(self.largest).ok_or(Errno::INVAL)?;
                let piece = if self.kept { self.areas.len() } else { usize::from(!self.only_read) };
                return Ok(vec![Place { piece, from, length }]);
            }
            Operation::Write | Operation::WriteFua => {}
        }
        // The last check before the system call. Adjacent areas are written at once.
        let span = Span::new(request.offset, request.length).ok_or(Errno::INVAL)?;
        let first = self.areas.partition_point(|area| area.end() <= span.start());
        let mut places = Vec::new();
        let mut at = span.start();
        for (index, area) in self.areas.iter().enumerate().skip(first) {
            if at >= span.end() || area.start() > at {
                break;
            }
            let end = area.end().min(span.end());
            let (piece, from) = if self.kept { (index, at.get() - area.start().get()) } else { (0, 0) };
            let from = usize::try_from(from).map_err(|_| Errno::INVAL)?;
            let length = u32::try_from(end.get() - at.get()).map_err(|_| Errno::INVAL)?;
            places.push(Place { piece, from, length });
            at = end;
        }
        if at < span.end() { Err(Errno::PERM.into()) } else { Ok(places) }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

fn since(begun: Instant) -> Time {
    Time::from_nanos(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

fn taken(requests: &mut [Option<Request>], id: u64) -> Option<Request> {
    usize::try_from(id).ok().and_then(|id| requests.get_mut(id)).and_then(Option::take)
}

/// The result of a request that was sent. Records the first failed write or flush in `unwritten`.
fn completed(
    done: io::Result<u32>,
    request: &Request,
    unwritten: &mut Option<io::Error>,
) -> Result<(), TargetError> {
    done.and_then(|done| whole(done, request)).map_err(|source| {
        // EINVAL comes from the kernel, before the request is sent to the target.
        let is_sent = Errno::from_io_error(&source) != Some(Errno::INVAL);
        let writes = request.operation.is_write() || request.operation == Operation::Flush;
        let (kind, cause) = (source.kind(), source.to_string());
        let failed = TargetError::Failed { request: *request, source };
        if is_sent && writes && unwritten.is_none() {
            *unwritten = Some(io::Error::new(kind, format!("{failed}: {cause}")));
        }
        failed
    })
}

/// Checks that all bytes were transferred: the target may have shrunk or be full.
fn whole(done: u32, request: &Request) -> io::Result<()> {
    if request.operation == Operation::Flush || u64::from(done) == request.length.get() {
        Ok(())
    } else {
        Err(io::Error::other(format!("only {done} of {} bytes were transferred", request.length.get())))
    }
}

impl Target for Real {
    fn description(&self) -> &Description {
        &self.description
    }

    fn capacity(&self) -> ByteCount {
        ByteCount::new(self.opened.size)
    }

    fn logical_sector(&self) -> u64 {
        self.opened.sector
    }

    fn now(&self) -> Time {
        since(self.begun)
    }

    fn submit(&mut self, request: Request) -> Result<(), TargetError> {
        if self.is_stopped() {
            return Err(TargetError::Interrupted);
        }
        let failed = |source| TargetError::Failed { request, source };
        if request.operation.is_write() {
            self.check_end(&request).map_err(failed)?;
        }
        let places = self.places(&request).map_err(failed)?;
        self.sent += 1;
        match &mut self.engine {
            Engine::Serial(serial) => {
                let done = serial.call(request.operation, &places, request.offset.get());
                completed(done, &request, &mut self.unwritten)?;
                let at = since(self.begun);
                self.done.push_back(Completion { id: request.id, at });
            }
            Engine::Ring(ring) => {
                let slot = usize::try_from(request.id.0).ok().and_then(|id| self.requests.get_mut(id));
                let slot = slot.filter(|slot| slot.is_none()).ok_or_else(|| failed(Errno::INVAL.into()))?;
                ring.push(request.operation, &places, request.offset.get(), request.id.0).map_err(failed)?;
                *slot = Some(request);
            }
        }
        Ok(())
    }

    fn wait(&mut self) -> Result<Completion, TargetError> {
        let ring = match &mut self.engine {
            Engine::Serial(_) => return self.done.pop_front().ok_or(TargetError::Idle),
            Engine::Ring(ring) => ring,
        };
        loop {
            let (id, done) = match ring.wait() {
                Ok(Some(back)) => back,
                Ok(None) => return Err(TargetError::Idle),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                    if self.stop.load(Ordering::Relaxed) {
                        return Err(TargetError::Interrupted);
                    }
                    continue;
                }
                Err(source) => {
                    // The results of the outstanding requests are not known.
                    self.unwritten.get_or_insert_with(|| io::Error::new(source.kind(), source.to_string()));
                    return Err(TargetError::Failed { request: Request::flush(0), source });
                }
            };
            let Some(request) = taken(&mut self.requests, id) else { continue };
            completed(done, &request, &mut self.unwritten)?;
            return Ok(Completion { id: RequestId(id), at: since(self.begun) });
        }
    }

    fn pause(&mut self, length: Nanos) {
        std::thread::sleep(Duration::from_nanos(length.get()));
    }
}

/// Nothing has to be kept of a target that is only read, or given up.
impl Surface for Real {
    fn prepare(&mut self, _spans: &[Span]) -> Result<(), TargetError> {
        Ok(())
    }
}

/// Adds the sectors, the first at byte `start`, in which two readings of the same place differ.
pub(crate) fn differing(start: u64, now: &[u8], then: &[u8], spans: &mut Vec<Span>) {
    if now == then {
        return;
    }
    let mut at = start;
    for (now, then) in now.chunks(SECTOR).zip(then.chunks(SECTOR)) {
        let length = now.len() as u64;
        if now != then {
            add(spans, at, length);
        }
        at += length;
    }
}

pub(crate) fn add(spans: &mut Vec<Span>, start: u64, length: u64) {
    let (from, length) = match spans.last() {
        Some(last) if last.end().get() == start => (last.start().get(), last.len().get() + length),
        _ => (start, length),
    };
    if from != start {
        spans.pop();
    }
    spans.extend(Span::new(ByteOffset::new(from), ByteCount::new(length)));
}

pub(crate) fn read_area(opened: &Opened, area: Span) -> Result<Memory, RealError> {
    let (start, length) = (area.start().get(), area.len().get());
    let failed = |offset, length, source| RealError::Read {
        path: opened.path.display().to_string(),
        offset,
        length,
        source,
    };
    let mut memory = Memory::new(usize::try_from(length).unwrap_or(0));
    let mut at = start;
    for chunk in memory.bytes_mut().chunks_mut(CHUNK) {
        let length = chunk.len() as u64;
        opened.file.read_exact_at(chunk, at).map_err(|source| failed(at, length, source))?;
        at += length;
    }
    Ok(memory)
}

struct Serial {
    file: File,
    memory: Vec<Memory>,
}

impl Serial {
    fn new(file: &File) -> io::Result<Self> {
        Ok(Self { file: file.try_clone()?, memory: Vec::new() })
    }

    fn call(&mut self, operation: Operation, places: &[Place], offset: u64) -> io::Result<u32> {
        let done = match (operation, places) {
            (Operation::Flush, _) => return self.file.sync_data().map(|()| 0),
            (Operation::Read, [place]) => self.file.read_at(place.bytes_mut(&mut self.memory)?, offset)?,
            (Operation::Write, [place]) => self.file.write_at(place.bytes(&self.memory)?, offset)?,
            _ => {
                let durable = operation == Operation::WriteFua;
                let flags = if durable { ReadWriteFlags::DSYNC } else { ReadWriteFlags::empty() };
                let parts = places.iter().map(|place| place.bytes(&self.memory).map(IoSlice::new));
                rustix::io::pwritev2(&self.file, &parts.collect::<io::Result<Vec<_>>>()?, offset, flags)?
            }
        };
        u32::try_from(done).map_err(|_| Errno::INVAL.into())
    }
}

#[cfg(test)]
mod tests;
