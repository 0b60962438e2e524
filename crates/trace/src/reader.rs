//! Which files are one trace, and reading it, request by request. Of a compressed trace only as much is unpacked as
//! is asked for, and the windows of the formats are bounded.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use straddle_device::image::Packing;

use crate::blktrace::Blktrace;
use crate::error::{LineError, TraceError};
use crate::format::{Format, How};
use crate::origin::Origin;
use crate::record::{Record, Sink};
use crate::text::Text;

#[cfg(feature = "parquet")]
use crate::columnar::Columnar;

/// The first bytes of a file in Apache Parquet, and the last.
pub(crate) const MAGIC: &[u8] = b"PAR1";

/// What the numbers of a trace's requests count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbered {
    /// Lines of text.
    Line,
    /// Records of a binary format.
    Record,
    /// Rows of a table.
    Row,
}

impl Numbered {
    /// Returns how an error names a place, after the name of the trace.
    pub(crate) fn of(self, number: u64, byte: Option<u64>) -> impl fmt::Display {
        let byte = byte.map(|byte| format!(" (byte {byte})")).unwrap_or_default();
        let what = match self {
            Self::Line => ":",
            Self::Record => ": record ",
            Self::Row => ": row ",
        };
        format!("{what}{number}{byte}")
    }
}

pub(crate) trait Source: Send {
    fn detect(&mut self) -> Result<Option<Format>, TraceError>;

    /// Hands on requests until the sink is full; false at the end.
    fn batch(&mut self, sink: &mut Sink) -> Result<bool, TraceError>;

    fn place(&self) -> Numbered;

    fn origin(&self) -> Option<&Origin> {
        None
    }

    #[cfg(feature = "parquet")]
    fn columnar(&mut self) -> Option<&mut Columnar> {
        None
    }
}

/// The bytes of a trace.
pub enum Input<'a> {
    /// A regular file, or anything else that was opened by name.
    File(File),
    /// Bytes as they come.
    Stream(Box<dyn Read + Send + 'a>),
}

impl<'a> Input<'a> {
    fn unpacked(self) -> io::Result<Box<dyn Read + Send + 'a>> {
        match self {
            Self::File(file) => unpacked(file),
            Self::Stream(stream) => unpacked(stream),
        }
    }
}

/// Reads a trace. Holds a block of it at a time.
pub struct Reader<'a> {
    source: Box<dyn Source + 'a>,
    sink: Sink,
    name: String,
    next: usize,
    ended: bool,
    failed: Option<TraceError>,
}

impl fmt::Debug for Reader<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Reader").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<'a> Reader<'a> {
    /// Creates a reader of bytes that are not packed. `name` is what errors call the trace.
    pub fn new(input: impl Read + Send + 'a, name: &str, how: &How) -> Self {
        match sniffed(Box::new(input), name, how) {
            Ok(source) => Self::of(source, name),
            Err(error) => {
                let nothing = Box::new(Text::new(io::empty(), name, how.clone()));
                Self { failed: Some(error), ..Self::of(nothing, name) }
            }
        }
    }

    /// Opens a trace, also a packed one, or a Parquet file.
    pub fn open(input: Input<'a>, name: &str, how: &How) -> Result<Self, TraceError> {
        let read = |source| TraceError::Read { name: name.to_owned(), byte: None, source };
        match input {
            Input::File(file) if is_table(&file, how).map_err(read)? => Self::table(file, name, how),
            input => Ok(Self::new(input.unpacked().map_err(read)?, name, how)),
        }
    }

    /// Opens the files of a recording by blktrace called `name`, one for each processor.
    pub fn merged(files: Vec<(String, Input<'a>)>, name: &str, how: &How) -> Result<Self, TraceError> {
        let stream = |(file, input): (String, Input<'a>)| match input.unpacked() {
            Ok(input) => Ok((file, input)),
            Err(source) => Err(TraceError::Read { name: file, byte: None, source }),
        };
        let streams = files.into_iter().map(stream).collect::<Result<_, _>>()?;
        Ok(Self::of(Box::new(Blktrace::new(streams, how)), name))
    }

    #[cfg(feature = "parquet")]
    fn table(file: File, name: &str, how: &How) -> Result<Self, TraceError> {
        Ok(Self::of(Box::new(Columnar::open(file, name, how)?), name))
    }

    #[cfg(not(feature = "parquet"))]
    fn table(_: File, name: &str, _: &How) -> Result<Self, TraceError> {
        Err(TraceError::Parquet { name: name.to_owned(), source: crate::ParquetError::NotBuilt })
    }

    fn of(source: Box<dyn Source + 'a>, name: &str) -> Self {
        Self { source, sink: Sink::new(), name: name.to_owned(), next: 0, ended: false, failed: None }
    }

    /// Returns the names of the volumes by index. A trace of one volume may give none.
    pub fn volumes(&self) -> &[String] {
        self.sink.volumes.names()
    }

    /// Returns the number of lines that are not requests: headers, and events of other kinds.
    pub const fn others(&self) -> u64 {
        self.sink.others
    }

    /// Returns the number of requests so far that are earlier than one before them: they count as of its time.
    pub const fn late(&self) -> u64 {
        self.sink.late
    }

    /// Returns what the trace says of itself, as far as it has been read: all of it at the end.
    pub fn origin(&self) -> Option<&Origin> {
        self.source.origin().filter(|origin| !origin.is_empty())
    }

    /// Returns the name of the trace.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the format asked for, or that of the first line; `None` if the trace is empty.
    pub fn detect(&mut self) -> Result<Option<Format>, TraceError> {
        match self.failed.take() {
            Some(error) => Err(error),
            None => self.source.detect(),
        }
    }

    /// Reads the next request; `None` at the end.
    pub fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        if self.next >= self.sink.batch.len() && !self.next_batch()? {
            return Ok(None);
        }
        let record = self.sink.batch.get(self.next).copied();
        self.next += 1;
        Ok(record)
    }

    /// Returns the requests that were read last.
    pub fn batch(&self) -> &[Record] {
        &self.sink.batch
    }

    /// Reads some requests, which [`Self::batch`] returns; false at the end.
    pub fn next_batch(&mut self) -> Result<bool, TraceError> {
        self.next = 0;
        self.sink.batch.clear();
        while self.sink.batch.is_empty() {
            if let Some(error) = self.failed.take() {
                self.ended = true;
                return Err(error);
            }
            if self.ended {
                return Ok(false);
            }
            match self.source.batch(&mut self.sink) {
                Ok(more) => self.ended = !more,
                // The requests before it come first.
                Err(error) => self.failed = Some(error),
            }
        }
        Ok(true)
    }

    #[cfg(feature = "parquet")]
    pub(crate) fn columnar(&mut self) -> Option<&mut Columnar> {
        self.source.columnar()
    }

    pub(crate) fn place(&self) -> Numbered {
        self.source.place()
    }

    pub(crate) fn wrong_at(&self, line: u64, source: LineError) -> TraceError {
        TraceError::Line { name: self.name.clone(), place: self.source.place(), line, byte: None, source }
    }
}

fn is_table(file: &File, how: &How) -> io::Result<bool> {
    // A pipe cannot be looked at without reading from it.
    if !file.metadata()?.is_file() {
        return Ok(false);
    }
    match how.format {
        Some(format) => Ok(format == Format::Parquet),
        None => {
            let mut first = [0; 4];
            let read = file.read_at(&mut first, 0)?;
            Ok(first.get(..read) == Some(MAGIC))
        }
    }
}

/// The first bytes decide.
fn sniffed<'a>(
    mut input: Box<dyn Read + Send + 'a>,
    name: &str,
    how: &How,
) -> Result<Box<dyn Source + 'a>, TraceError> {
    let mut first = Vec::with_capacity(4);
    let read = input.by_ref().take(4).read_to_end(&mut first);
    read.map_err(|source| TraceError::Read { name: name.to_owned(), byte: Some(0), source })?;
    if first == MAGIC || how.format == Some(Format::Parquet) {
        let (name, place, source) = (name.to_owned(), Numbered::Record, LineError::Piped);
        return Err(TraceError::Line { name, place, line: 1, byte: Some(0), source });
    }
    let is_records = how.format.map_or_else(|| Blktrace::is_one(&first), |format| format == Format::Blktrace);
    let input = Cursor::new(first).chain(input);
    Ok(match is_records {
        true => Box::new(Blktrace::new(vec![(name.to_owned(), Box::new(input))], how)),
        false => Box::new(Text::new(input, name, how.clone())),
    })
}

#[cfg(all(test, not(feature = "parquet")))]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_refused_by_a_build_without_its_feature() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), MAGIC).unwrap();
        let opened = Reader::open(Input::File(file.reopen().unwrap()), "t", &How::default());
        let said = std::error::Error::source(&opened.unwrap_err()).unwrap().to_string();
        assert_eq!(said, "this build of straddle lacks the 'parquet' feature");
    }
}

/// The files of a trace: one, or those that blktrace wrote for each processor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// What the trace is called.
    pub name: String,
    /// Its files.
    pub files: Vec<PathBuf>,
}

impl Recording {
    /// Whether it is standard input: `-`. A file of this name is `./-`.
    pub fn is_stdin(&self) -> bool {
        self.files.iter().any(|path| path == Path::new("-"))
    }

    /// Opens its files.
    pub fn open(&self, how: &How) -> Result<Reader<'static>, TraceError> {
        let open = |path: &PathBuf| {
            let name = path.display().to_string();
            if self.is_stdin() {
                return Ok((name, Input::Stream(Box::new(io::stdin()))));
            }
            match File::open(path) {
                Ok(file) => Ok((name, Input::File(file))),
                Err(source) => Err(TraceError::Read { name, byte: None, source }),
            }
        };
        let mut files = self.files.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        match files.pop() {
            Some((_, input)) if files.is_empty() => Reader::open(input, &self.name, how),
            last => {
                files.extend(last);
                Reader::merged(files, &self.name, how)
            }
        }
    }

    /// Groups paths into traces, in order. Files `NAME.blktrace.0`, `NAME.blktrace.1` and so on are one; a path that
    /// does not exist stands for all files of a recording of this name, as it does for blkparse.
    pub fn group(paths: &[PathBuf]) -> Vec<Self> {
        let mut all: Vec<(Self, Option<PathBuf>)> = Vec::new();
        for path in paths {
            let files = if path.exists() { Vec::new() } else { of_all_processors(path) };
            let (stem, files) = match files.is_empty() {
                true => (stem(path), vec![path.clone()]),
                false => (Some(path.clone()), files),
            };
            let known = stem.is_some().then(|| all.iter_mut().find(|(_, known)| *known == stem)).flatten();
            match known {
                Some((recording, _)) => {
                    recording.files.extend(files);
                    recording.name = stem.as_deref().unwrap_or(path).display().to_string();
                }
                None => {
                    let several = if files.len() > 1 { stem.as_deref().unwrap_or(path) } else { path };
                    all.push((Self { name: several.display().to_string(), files }, stem));
                }
            }
        }
        all.into_iter().map(|(recording, _)| recording).collect()
    }
}

/// Returns what comes before `.blktrace.` and the processor's number.
fn stem(path: &Path) -> Option<PathBuf> {
    let bytes = path.as_os_str().as_bytes();
    let digits = bytes.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let rest = bytes.get(..bytes.len() - digits)?;
    let stem = rest.strip_suffix(b".blktrace.").filter(|stem| digits > 0 && !stem.is_empty())?;
    Some(PathBuf::from(OsString::from_vec(stem.to_vec())))
}

fn of_all_processors(stem: &Path) -> Vec<PathBuf> {
    const MAX_PROCESSORS: u32 = 4096;
    let name = |number: u32| {
        let mut name = stem.as_os_str().to_owned();
        name.push(format!(".blktrace.{number}"));
        PathBuf::from(name)
    };
    (0..MAX_PROCESSORS).map(name).take_while(|path| path.exists()).collect()
}

const CHUNK: usize = 256 * 1024;

/// Returns the contents of a gzip, zstd or xz file, by its first bytes, unpacked, and of others as they are.
pub fn unpacked<'a>(file: impl Read + Send + 'a) -> io::Result<Box<dyn Read + Send + 'a>> {
    let mut file = BufReader::with_capacity(CHUNK, file);
    let packing = match file.fill_buf()? {
        [0x1f, 0x8b, ..] => Packing::Gzip,
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Packing::Zstd,
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Packing::Xz,
        _ => return Ok(Box::new(file)),
    };
    Ok(straddle_device::image::unpacked(file, packing))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_recording_are_one_trace() {
        let paths = ["a.csv", "d/sda.blktrace.1", "sdb.blktrace.0", "d/sda.blktrace.0", "x.blktrace.", "-"];
        let grouped = Recording::group(&paths.map(PathBuf::from));
        let names: Vec<(&str, usize)> =
            grouped.iter().map(|recording| (recording.name.as_str(), recording.files.len())).collect();
        let expected = [("a.csv", 1), ("d/sda", 2), ("sdb.blktrace.0", 1), ("x.blktrace.", 1), ("-", 1)];
        assert_eq!(names, expected);
    }

    /// Two frames of zstd with their sums, and one that is skipped between them: what `printf` and `zstd` make.
    #[test]
    fn frames_are_read_one_after_the_other_and_their_sums_checked() {
        let frame = |text: &[u8]| {
            // A window of 1 KiB, with a sum; one raw block, which is the last.
            let header = (u32::try_from(text.len()).unwrap() << 3 | 1).to_le_bytes();
            let sum = u32::try_from(xxhash_rust::xxh64::xxh64(text, 0) & 0xffff_ffff).unwrap().to_le_bytes();
            [&[0x28, 0xb5, 0x2f, 0xfd, 0x04, 0][..], &header[..3], text, &sum].concat()
        };
        let skipped = [0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
        let file = [frame(b"time,op\n"), skipped.to_vec(), frame(b"1,W\n")].concat();
        let mut read = String::new();
        unpacked(&file[..]).unwrap().read_to_string(&mut read).unwrap();
        assert_eq!(read, "time,op\n1,W\n");
        for at in [9, file.len() - 1] {
            let mut wrong = file.clone();
            wrong[at] ^= 1;
            assert!(unpacked(&wrong[..]).unwrap().read_to_end(&mut Vec::new()).is_err(), "byte {at}");
        }
        for length in 4..file.len() - 1 {
            let ended = unpacked(&file[..length]).unwrap().read_to_end(&mut Vec::new());
            // Behind the first frame, and the one that is skipped, the file may end.
            let is_whole = [21, 32].contains(&length);
            assert_eq!(ended.is_ok(), is_whole, "{length} bytes");
        }
    }

    #[test]
    fn other_files_are_read_as_they_are() {
        for text in [&b""[..], b"\x1f", b"time,op,offset,length\n"] {
            let mut read = Vec::new();
            unpacked(text).unwrap().read_to_end(&mut read).unwrap();
            assert_eq!(read, text);
        }
    }
}
