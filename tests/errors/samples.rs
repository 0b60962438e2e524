//! A sample of every library error that has a cause.

use std::any::type_name;
use std::error::Error;
use std::io;
use std::path::PathBuf;

use straddle_audit::examine::{ExamineError, ExceptionError, NameError, TargetException};
use straddle_device::claim::LockError;
use straddle_device::domain::{DomainError, FindError, VirshError};
use straddle_device::image::{Format, ImageError, UnpackError};
use straddle_device::ioctl::IoctlError;
use straddle_device::remote::{FetchError, RemoteError};
use straddle_device::{AssumeError, ReadError};
use straddle_drive::ProfileError;
use straddle_drive::disk::{GeometryError, SeekError};
use straddle_drive::ssd::FlashError;
use straddle_lab::guest::GuestError;
use straddle_lab::media::{MediaError, StoreError};
use straddle_lab::reproduce::experiment::ExperimentError;
use straddle_lab::reproduce::fit::FitError;
use straddle_lab::reproduce::lab::input::InputError;
use straddle_lab::reproduce::lab::{LabError, ReproduceError};
use straddle_lab::serve::{EndpointError, ServerError};
use straddle_lab::vhost::VhostError;
use straddle_measure::bench::{RunError, TargetError, WorkloadError};
use straddle_measure::probe::ProbeError;
use straddle_measure::real::{AreaError, JournalError, RealError, SessionError};
use straddle_repair::ChangeError;
use straddle_repair::apply::{ApplyError, BackupError};
use straddle_repair::boot::BootError;
use straddle_repair::copy::CopyError;
use straddle_repair::realign::{Ending, MoveError, RealignError};
use straddle_repair::relocate::{Device, RelocateError};
use straddle_repair::{PlanError, TargetError as DiskError};
use straddle_trace::tracefs::{FormatError, PageError, RecordError};
use straddle_trace::{LineError, Numbered, ParquetError, StoredError, TableError, TraceError, WriteError};
use straddle_units::io::{Operation, Refusal, Request};
use straddle_units::{BlockSizeError, ByteCount, ByteOffset, parse_size};

/// An error, its crate, its type and its variant.
pub(crate) struct Sample {
    pub(crate) name: [String; 3],
    pub(crate) error: Box<dyn Error>,
}

/// The crate and the type come from the type's path, the variant from its `Debug`.
fn sample<E: Error + 'static>(error: E) -> Sample {
    let path = type_name::<E>();
    let library = path.split("::").next().unwrap_or_default().trim_start_matches("straddle_");
    let name = path.rsplit("::").next().unwrap_or_default();
    let debug = format!("{error:?}");
    let variant: String = debug.chars().take_while(|c| c.is_alphanumeric()).collect();
    Sample { name: [library.to_owned(), name.to_owned(), variant], error: Box::new(error) }
}

fn cause() -> io::Error {
    io::Error::other("the cause")
}

fn text() -> String {
    "text".to_owned()
}

fn path() -> PathBuf {
    PathBuf::from("/dev/sdb")
}

fn at() -> ByteOffset {
    ByteOffset::new(512)
}

fn description() -> DomainError {
    DomainError { line: 3, at: 40, what: "the cause".to_owned() }
}

fn geometry() -> GeometryError {
    GeometryError::TooSmall { sectors: 1, needed: 2 }
}

fn seek() -> SeekError {
    SeekError::Order { index: 1 }
}

fn refusal() -> Refusal {
    Refusal::NoDiscard
}

fn profile() -> ProfileError {
    ProfileError::Geometry { name: text(), source: geometry() }
}

fn failed() -> TargetError {
    TargetError::Failed { request: request(), source: cause() }
}

fn request() -> Request {
    Request::new(0, Operation::Read, ByteOffset::ZERO, ByteCount::new(512))
}

/// A pattern that is not valid.
fn pattern() -> ExceptionError {
    let reason = straddle_audit::Reason { text: "a reason".to_owned(), source: "a file".to_owned() };
    TargetException::new("S001", Some("***"), None, reason).unwrap_err()
}

pub(crate) fn samples() -> Vec<Sample> {
    let mut samples = of_devices();
    samples.extend(of_models());
    samples.extend(of_measurements());
    samples.extend(of_guests());
    samples.extend(of_recordings());
    samples.extend(of_repairs());
    samples.extend(of_servers());
    samples.extend(of_boots());
    samples
}

fn of_servers() -> Vec<Sample> {
    let connection = || FetchError::Connection { host: text(), source: cause() };
    vec![
        sample(connection()),
        sample(FetchError::Credentials { host: text(), hint: None, source: Box::new(connection()) }),
        sample(ReadError::Fetch { at: at(), source: Box::new(connection()) }),
        sample(RemoteError { at: at(), source: connection() }),
    ]
}

fn of_boots() -> Vec<Sample> {
    let failed = || Box::new(BootError::File { path: path(), what: "write", source: cause() });
    let json = || serde_json::from_str::<u8>("x").unwrap_err();
    vec![
        sample(*failed()),
        sample(BootError::Run { program: "a program", source: cause() }),
        sample(BootError::Removed(failed())),
        sample(BootError::MayMove { command: text(), source: failed() }),
        sample(BootError::Store(json())),
        sample(BootError::Plan(PlanError::Read(ReadError::Io { at: at(), source: cause() }).into())),
        sample(BootError::Target(DiskError::Io(cause()))),
        sample(BootError::Change(ChangeError::Target(DiskError::Io(cause())))),
        sample(BootError::Read(ReadError::Io { at: at(), source: cause() })),
        sample(BootError::Move(MoveError::List(cause()))),
        sample(BootError::NotMoved(failed())),
        sample(BootError::Unfinished(failed())),
        sample(BootError::EndedBadly(failed())),
        sample(BootError::NoRestart(cause())),
    ]
}

fn of_repairs() -> Vec<Sample> {
    use straddle_device::OpenError;
    let (device, len) = (Device::Journal, ByteCount::new(512));
    let read = || ReadError::Io { at: at(), source: cause() };
    let stored = || BackupError::Store { path: path(), source: cause() };
    let moves = || RelocateError::Write { device, at: at(), len, source: cause() };
    vec![
        sample(moves()),
        sample(RelocateError::Read { device, at: at(), source: cause() }),
        sample(RelocateError::Flush { device, source: cause() }),
        sample(PlanError::Read(read())),
        sample(DiskError::Open(OpenError::Io(cause()))),
        sample(DiskError::Io(cause())),
        sample(stored()),
        sample(BackupError::Load { path: path(), source: cause() }),
        sample(ApplyError::CutShort(text())),
        sample(ApplyError::Outgrown { partition: 1, used: None, restored: ByteCount::new(1) }),
        sample(ApplyError::Elsewhere { path: text() }),
        sample(ApplyError::Plan(PlanError::Read(read()))),
        sample(ApplyError::Backup(stored())),
        sample(ApplyError::Read(read())),
        sample(ApplyError::Write { what: text(), at: 512, source: cause() }),
        sample(ApplyError::Flush { source: cause() }),
        sample(RealignError::Table(PlanError::Read(read()))),
        sample(RealignError::Moves(moves())),
        sample(MoveError::Plan(RealignError::Moves(moves()))),
        sample(MoveError::Apply(ApplyError::Read(read()))),
        sample(MoveError::Moves(moves())),
        sample(MoveError::Read(read())),
        sample(MoveError::List(cause())),
        sample(MoveError::Ended { ending: Ending::NotMarked, source: Box::new(MoveError::Moves(moves())) }),
        sample(MoveError::JournalFile { path: path(), source: cause() }),
        sample(CopyError::Table(PlanError::Read(read()))),
        sample(CopyError::List(cause())),
        sample(CopyError::Flush { source: cause() }),
        sample(CopyError::SourceWritten(path())),
        sample(CopyError::Apply(ApplyError::Read(read()))),
        sample(CopyError::Record(MoveError::Moves(moves()))),
        sample(CopyError::Read(read())),
        sample(CopyError::Unknown { at: at(), source: read() }),
        sample(CopyError::Unreadable { at: at(), source: read() }),
        sample(CopyError::Write { at: at(), source: cause() }),
    ]
}

fn of_devices() -> Vec<Sample> {
    use straddle_device::{OpenError, UnknownPower};
    let (format, role, what) = (Format::Qcow2, "backing file", "what");
    let read = || ReadError::Io { at: at(), source: cause() };
    let image = || ImageError::Read { format, source: Box::new(read()) };
    let power = || UnknownPower { disk: text(), source: IoctlError::Os { what, source: cause() } };
    let unpack = || UnpackError::Damaged { at: at(), source: cause() };
    let size = || parse_size("x").unwrap_err();
    vec![
        sample(AssumeError::Size { key: text(), source: size() }),
        sample(AssumeError::Logical(BlockSizeError(3))),
        sample(LockError::Io(cause())),
        sample(ImageError::Open { format, role, name: text(), source: cause() }),
        sample(ImageError::Other { format, role, name: text(), source: Box::new(image()) }),
        sample(image()),
        sample(unpack()),
        sample(UnpackError::Scratch { folder: path(), source: cause() }),
        sample(IoctlError::Os { what, source: cause() }),
        sample(ReadError::Image { at: at(), source: Box::new(image()) }),
        sample(read()),
        sample(OpenError::Io(cause())),
        sample(OpenError::Power(power())),
        sample(power()),
        sample(OpenError::Unpack { what, source: unpack(), command: None }),
        sample(OpenError::Image(image())),
        sample(OpenError::Allowed { path: path(), source: cause() }),
        sample(VirshError::Run(cause())),
        sample(FindError::Virsh(VirshError::Run(cause()))),
        sample(FindError::Read { path: path(), source: cause() }),
        sample(FindError::Description { name: text(), source: description() }),
        sample(ExamineError::Open(OpenError::Io(cause()))),
        sample(NameError::Drive(profile())),
        sample(NameError::Address(straddle_device::AddressError::Host)),
        sample(ExamineError::Read(read())),
        sample(pattern()),
        sample(ChangeError::Open(OpenError::Io(cause()))),
        sample(ChangeError::Target(DiskError::Io(cause()))),
        sample(ChangeError::Read(read())),
    ]
}

fn of_models() -> Vec<Sample> {
    let flash = || FlashError { key: "key", value: text(), reason: text() };
    vec![
        sample(ProfileError::Unreadable { path: path(), source: cause() }),
        sample(profile()),
        sample(ProfileError::Flash { name: text(), source: flash() }),
        sample(ProfileError::Section { name: text(), section: text(), reason: text() }),
        sample(ProfileError::Seek { name: text(), source: seek() }),
        sample(RunError::Workload(WorkloadError::Zero { what: "size" })),
        sample(RunError::Target { index: 1, source: failed() }),
        sample(TargetError::Refused { request: request(), source: refusal() }),
        sample(failed()),
        sample(ProbeError::Target(failed())),
        sample(TraceError::Read { name: text(), byte: Some(7), source: cause() }),
        sample(TraceError::Line {
            name: text(),
            place: Numbered::Line,
            line: 2,
            byte: Some(7),
            source: LineError::Unknown,
        }),
        sample(TraceError::Parquet {
            name: text(),
            source: ParquetError::Large { what: "a group", bytes: 2, most: 1 },
        }),
        sample(TraceError::Parquet { name: text(), source: ParquetError::Rows { claimed: 2, found: 1 } }),
        sample(ParquetError::Damaged { why: text() }),
        sample(TraceError::Table { name: text(), source: TableError::Batch { found: 1, expected: 2 } }),
        sample(TableError::TwoColumns { column: "time" }),
        sample(ParquetError::Table(TableError::Batch { found: 1, expected: 2 })),
        sample(StoredError::Version { found: 9 }),
        sample(TraceError::Write { name: text(), source: WriteError::Backwards { line: 2 } }),
        sample(WriteError::Io(cause())),
        sample(WriteError::Parquet(cause().into())),
    ]
}

fn of_measurements() -> Vec<Sample> {
    use straddle_measure::real::OpenError;
    let open = || OpenError::Unusable { path: path(), source: cause() };
    let area = || AreaError::Look { path: path(), source: Box::new(cause()) };
    let read = || RealError::Read { path: text(), offset: 0, length: 1, source: cause() };
    let journal = || JournalError::Io { path: path(), what: "write", source: cause() };
    let put = JournalError::PutBack { path: path(), target: path(), offset: 0, length: 1, source: cause() };
    vec![
        sample(open()),
        sample(OpenError::Unseen { path: path(), source: ReadError::Io { at: at(), source: cause() } }),
        sample(area()),
        sample(read()),
        sample(RealError::Ring(cause())),
        sample(journal()),
        sample(JournalError::Open { path: path(), source: open() }),
        sample(put),
        sample(JournalError::Flush { path: path(), target: path(), source: cause() }),
        sample(SessionError::Open(open())),
        sample(SessionError::Area(area())),
        sample(SessionError::Journals { folder: path(), source: cause() }),
        sample(SessionError::Blind { path: path(), what: path(), source: cause() }),
        sample(SessionError::Target(read())),
        sample(SessionError::Uncompared { journal: path(), source: read() }),
        sample(SessionError::Unwritten { journal: path(), source: cause() }),
        sample(SessionError::Journal(journal())),
    ]
}

fn of_recordings() -> Vec<Sample> {
    vec![
        sample(RecordError::Look { path: path(), source: cause() }),
        sample(RecordError::Denied { path: path(), source: cause() }),
        sample(RecordError::Tracefs { path: path(), source: cause() }),
        sample(RecordError::Format { path: path(), source: FormatError::NoField { name: "dev" } }),
        sample(RecordError::Page { processor: 0, source: PageError::Short { bytes: 7 } }),
        sample(RecordError::Write(cause())),
    ]
}

fn of_guests() -> Vec<Sample> {
    let socket = || VhostError::Socket { doing: "doing", source: cause() };
    let drive = || ExperimentError::Drive { name: text(), step: text(), source: Box::new(profile()) };
    let run = Box::new(RunError::Target { index: 1, source: failed() });
    let lab = || LabError::Guest(GuestError::Io { doing: "copying".to_owned(), source: cause() });
    let endpoint = || EndpointError::Failed { endpoint: text(), source: cause() };
    let input = || InputError::Unwritable { path: path(), source: cause() };
    vec![
        sample(socket()),
        sample(VhostError::Ring(virtio_queue::Error::InvalidSize)),
        sample(GuestError::Io { doing: text(), source: cause() }),
        sample(GuestError::Drive { drive: 0, source: socket() }),
        sample(GuestError::Contents { drive: 0, source: Box::new(cause()) }),
        sample(MediaError::Refused(refusal())),
        sample(MediaError::Store(cause())),
        sample(StoreError::Unusable { path: path(), source: cause() }),
        sample(ExperimentError::Unreadable { path: path(), source: cause() }),
        sample(drive()),
        sample(ExperimentError::Run { name: text(), step: text(), arm: text(), source: run }),
        sample(FitError::Drive(profile())),
        sample(FitError::Experiment(drive())),
        sample(input()),
        sample(LabError::Drive(profile())),
        sample(lab()),
        sample(ReproduceError::Input(input())),
        sample(ReproduceError::Machine { step: text(), source: lab() }),
        sample(endpoint()),
        sample(ServerError::Endpoint(endpoint())),
        sample(ServerError::System(cause())),
        sample(ServerError::Store(cause())),
    ]
}
