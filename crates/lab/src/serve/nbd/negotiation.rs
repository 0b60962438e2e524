//! The negotiation of options before the first request.

use crate::serve::nbd::buffer::Buffer;
use crate::serve::nbd::{Export, LARGEST_REQUEST};

const INIT_MAGIC: u64 = 0x4e42_444d_4147_4943;
const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
const REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;

const FIXED_NEWSTYLE: u32 = 1 << 0;
const NO_ZEROES: u32 = 1 << 1;

const OPTION_HEADER_BYTES: usize = 16;
/// The longest option: more than the longest name (4096) with every kind of information.
const LONGEST_OPTION: u32 = 1 << 16;
/// The padding at the end of EXPORT_NAME's reply, unless the client asked to omit it.
const ZEROES: [u8; 124] = [0; 124];

mod option {
    pub(super) const EXPORT_NAME: u32 = 1;
    pub(super) const ABORT: u32 = 2;
    pub(super) const LIST: u32 = 3;
    pub(super) const INFO: u32 = 6;
    pub(super) const GO: u32 = 7;
}

mod reply {
    const ERROR: u32 = 1 << 31;
    pub(super) const ACK: u32 = 1;
    pub(super) const SERVER: u32 = 2;
    pub(super) const INFO: u32 = 3;
    pub(super) const UNSUPPORTED: u32 = ERROR | 1;
    pub(super) const INVALID: u32 = ERROR | 3;
    pub(super) const UNKNOWN: u32 = ERROR | 6;
}

mod info {
    pub(super) const EXPORT: u16 = 0;
    pub(super) const NAME: u16 = 1;
    pub(super) const DESCRIPTION: u16 = 2;
    pub(super) const BLOCK_SIZE: u16 = 3;
}

/// A violation of the protocol, for which the client is disconnected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum Violation {
    #[error("the client sent flags {0:#x}, which were not offered")]
    ClientFlags(u32),
    #[error("an option has the wrong magic number {0:#x}")]
    OptionMagic(u64),
    #[error("option {option} is too long ({length} bytes)")]
    LongOption { option: u32, length: u32 },
    /// EXPORT_NAME for another export. The protocol has no other way to report that.
    #[error("no export has that name")]
    NoSuchExport,
    #[error("a request has the wrong magic number {0:#x}")]
    RequestMagic(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The greeting is sent; the client's flags come next.
    Flags,
    Options {
        no_zeroes: bool,
    },
    Transmission,
    Ended,
}

pub(super) fn greet(output: &mut Buffer) {
    output.push(&INIT_MAGIC.to_be_bytes());
    output.push(&OPTION_MAGIC.to_be_bytes());
    // Both flags are in the lower 16 bits.
    output.push(&(FIXED_NEWSTYLE | NO_ZEROES).to_be_bytes()[2..]);
}

/// Handles one message of the client; `None` if it is not complete yet.
pub(super) fn step(
    stage: Stage,
    input: &mut Buffer,
    output: &mut Buffer,
    export: &Export,
) -> Result<Option<Stage>, Violation> {
    match stage {
        Stage::Flags => {
            let Some(&[a, b, c, d]) = input.take(4) else { return Ok(None) };
            let flags = u32::from_be_bytes([a, b, c, d]);
            if flags & !(FIXED_NEWSTYLE | NO_ZEROES) != 0 {
                return Err(Violation::ClientFlags(flags));
            }
            Ok(Some(Stage::Options { no_zeroes: flags & NO_ZEROES != 0 }))
        }
        Stage::Options { no_zeroes } => options(no_zeroes, input, output, export),
        Stage::Transmission | Stage::Ended => Ok(None),
    }
}

fn options(
    no_zeroes: bool,
    input: &mut Buffer,
    output: &mut Buffer,
    export: &Export,
) -> Result<Option<Stage>, Violation> {
    let Some(header) = input.filled().first_chunk::<OPTION_HEADER_BYTES>() else { return Ok(None) };
    let [m0, m1, m2, m3, m4, m5, m6, m7, o0, o1, o2, o3, l0, l1, l2, l3] = *header;
    let magic = u64::from_be_bytes([m0, m1, m2, m3, m4, m5, m6, m7]);
    let (option, length) = (u32::from_be_bytes([o0, o1, o2, o3]), u32::from_be_bytes([l0, l1, l2, l3]));
    if magic != OPTION_MAGIC {
        return Err(Violation::OptionMagic(magic));
    }
    if length > LONGEST_OPTION {
        return Err(Violation::LongOption { option, length });
    }
    let Some(message) = input.take(OPTION_HEADER_BYTES + length as usize) else { return Ok(None) };
    let data = &message[OPTION_HEADER_BYTES..];
    let mut answer = |code: u32, data: &[&[u8]]| respond(output, option, code, data);
    let goes_on = Ok(Some(Stage::Options { no_zeroes }));
    match option {
        option::EXPORT_NAME => {
            if !export.is_called(data) {
                return Err(Violation::NoSuchExport);
            }
            output.push(&export.size.to_be_bytes());
            output.push(&export.flags().to_be_bytes());
            output.push(if no_zeroes { &[] } else { &ZEROES });
            return Ok(Some(Stage::Transmission));
        }
        option::ABORT => {
            answer(reply::ACK, &[]);
            return Ok(Some(Stage::Ended));
        }
        option::LIST if data.is_empty() => {
            let (name, description) = (export.name.as_bytes(), export.description.as_bytes());
            let length = u32::try_from(name.len()).unwrap_or_default().to_be_bytes();
            answer(reply::SERVER, &[&length, name, description]);
            answer(reply::ACK, &[]);
        }
        option::GO | option::INFO => match asked_name(data) {
            None => answer(reply::INVALID, &[b"the option's length does not fit its contents"]),
            Some((name, _)) if !export.is_called(name) => {
                answer(reply::UNKNOWN, &[b"no export has that name"]);
            }
            Some((_, wanted)) => {
                tell(&mut answer, export, wanted);
                answer(reply::ACK, &[]);
                if option == option::GO {
                    return Ok(Some(Stage::Transmission));
                }
            }
        },
        option::LIST => answer(reply::INVALID, &[b"LIST takes no data"]),
        _ => answer(reply::UNSUPPORTED, &[]),
    }
    goes_on
}

/// The data of INFO and GO: length of the name, name, number of types of information, and those, 16 bits each.
/// Returns the name and the types.
fn asked_name(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = data.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    let (name, rest) = rest.split_at_checked(length)?;
    let (count, wanted) = rest.split_first_chunk::<2>()?;
    (wanted.len() == 2 * usize::from(u16::from_be_bytes(*count))).then_some((name, wanted))
}

fn tell(answer: &mut impl FnMut(u32, &[&[u8]]), export: &Export, wanted: &[u8]) {
    let asks = |kind: u16| wanted.chunks(2).any(|asked| asked == kind.to_be_bytes());
    let (size, flags) = (export.size.to_be_bytes(), export.flags().to_be_bytes());
    answer(reply::INFO, &[&info::EXPORT.to_be_bytes(), &size, &flags]);
    if asks(info::NAME) {
        answer(reply::INFO, &[&info::NAME.to_be_bytes(), export.name.as_bytes()]);
    }
    if asks(info::DESCRIPTION) {
        answer(reply::INFO, &[&info::DESCRIPTION.to_be_bytes(), export.description.as_bytes()]);
    }
    // Sent even if not requested: a client that does not know the sizes would send requests that are refused.
    let sizes = [export.minimum_block, export.preferred_block, LARGEST_REQUEST].map(u32::to_be_bytes);
    answer(reply::INFO, &[&info::BLOCK_SIZE.to_be_bytes(), sizes.as_flattened()]);
}

fn respond(output: &mut Buffer, option: u32, code: u32, data: &[&[u8]]) {
    let length: usize = data.iter().map(|part| part.len()).sum();
    output.push(&REPLY_MAGIC.to_be_bytes());
    output.push(&option.to_be_bytes());
    output.push(&code.to_be_bytes());
    output.push(&u32::try_from(length).unwrap_or_default().to_be_bytes());
    for part in data {
        output.push(part);
    }
}

impl Export {
    fn is_called(&self, name: &[u8]) -> bool {
        name.is_empty() || name == self.name.as_bytes()
    }
}
