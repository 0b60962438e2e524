//! The link between the guest's clock and its drives: what `clock/clock.c` writes and reads, as little-endian
//! 64-bit numbers.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use straddle_units::io::Time;

use crate::guest::job::Spent;

const NEVER: u64 = u64::MAX;
const REPORT_NUMBERS: usize = 12;

/// A message of the clock, which waits for an answer to each except the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// The guest has filled a queue, at this time.
    Kick(Time),
    /// The guest's time is now this; completions that are due must be delivered.
    Advance(Time),
    /// The guest is idle: advance to the first completion, but not past this time.
    Wait(Time),
    /// The guest has ended, at this time.
    Report(Time, Spent),
}

/// The drives' answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The guest's time now.
    pub(crate) now: Time,
    /// The time of the next completion; `None` while nothing is outstanding.
    pub(crate) next: Option<Time>,
    /// Whether the guest was interrupted.
    pub(crate) raised: bool,
}

/// Reads one message; `None` where the guest is gone.
pub(crate) fn receive(stream: &mut UnixStream) -> io::Result<Option<Message>> {
    let mut numbers = [0; 2];
    if !read_numbers(stream, &mut numbers)? {
        return Ok(None);
    }
    let [kind, at] = numbers;
    let at = Time::from_nanos(at);
    Ok(Some(match kind {
        1 => Message::Kick(at),
        2 => Message::Advance(at),
        3 => Message::Wait(at),
        4 => {
            let mut report = [0; REPORT_NUMBERS];
            if !read_numbers(stream, &mut report)? {
                return Ok(None);
            }
            Message::Report(at, spent(report))
        }
        other => return Err(io::Error::other(format!("the clock sent a message of kind {other}"))),
    }))
}

/// Writes an answer.
pub(crate) fn answer(stream: &mut UnixStream, answer: Answer) -> io::Result<()> {
    let next = answer.next.map_or(NEVER, Time::get);
    let mut bytes = [0; 24];
    for (number, into) in
        [answer.now.get(), next, u64::from(answer.raised)].into_iter().zip(bytes.chunks_mut(8))
    {
        into.copy_from_slice(&number.to_le_bytes());
    }
    stream.write_all(&bytes)
}

fn spent(report: [u64; REPORT_NUMBERS]) -> Spent {
    let [
        _,
        clock_reads,
        stops,
        kicks,
        exchanges,
        sleeps,
        slept,
        ticks,
        late_ticks,
        computed,
        random_addresses,
        digest,
    ] = report;
    Spent {
        stops,
        clock_reads,
        kicks,
        exchanges,
        sleeps,
        slept: Duration::from_nanos(slept),
        ticks,
        late_ticks,
        computed: Duration::from_nanos(computed),
        random_addresses: random_addresses != 0,
        digest,
    }
}

/// Fills `numbers`. Returns false where the stream ended before the first.
fn read_numbers<const N: usize>(stream: &mut UnixStream, numbers: &mut [u64; N]) -> io::Result<bool> {
    let mut bytes = [0; 8 * REPORT_NUMBERS];
    let bytes = &mut bytes[..8 * N];
    match stream.read_exact(bytes) {
        Ok(()) => (),
        // A guest that was killed may leave an answer unread.
        Err(error)
            if matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset) =>
        {
            return Ok(false);
        }
        Err(error) => return Err(error),
    }
    for (number, bytes) in numbers.iter_mut().zip(bytes.chunks(8)) {
        *number = bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use straddle_units::io::Time;

    use super::{Answer, Message, answer, receive};

    /// Sends what the clock would send, and returns what is received.
    fn received(numbers: &[u64], surplus: &[u8]) -> std::io::Result<Option<Message>> {
        let (mut ours, mut clocks) = UnixStream::pair().unwrap();
        for number in numbers {
            clocks.write_all(&number.to_le_bytes()).unwrap();
        }
        clocks.write_all(surplus).unwrap();
        drop(clocks);
        receive(&mut ours)
    }

    #[test]
    fn messages_are_numbers_and_nothing_else() {
        let at = Time::from_nanos(5);
        assert_eq!(received(&[1, 5], &[]).unwrap(), Some(Message::Kick(at)));
        assert_eq!(received(&[2, 5], &[]).unwrap(), Some(Message::Advance(at)));
        assert_eq!(received(&[3, u64::MAX], &[]).unwrap(), Some(Message::Wait(Time::NEVER)));
        let report: Vec<u64> = [4, 5].into_iter().chain(100..112).collect();
        let Some(Message::Report(time, spent)) = received(&report, &[]).unwrap() else { panic!("a report") };
        assert_eq!((time, spent.clock_reads, spent.stops, spent.digest), (at, 101, 102, 111));
        assert!(spent.random_addresses);
    }

    #[test]
    fn a_clock_that_ends_within_a_message_is_gone_and_an_unknown_message_is_an_error() {
        assert_eq!(received(&[], &[]).unwrap(), None);
        for surplus in 1..8 {
            assert_eq!(received(&[1], &[0; 8][..surplus]).unwrap(), None);
        }
        assert_eq!(received(&[4, 5, 1, 2], &[]).unwrap(), None);
        assert!(received(&[0, 5], &[]).is_err() && received(&[5, 5], &[]).is_err());
    }

    #[test]
    fn an_answer_is_three_numbers() {
        for (next, number) in [(None, u64::MAX), (Some(Time::from_nanos(9)), 9)] {
            let (mut ours, mut clocks) = UnixStream::pair().unwrap();
            answer(&mut ours, Answer { now: Time::from_nanos(7), next, raised: true }).unwrap();
            drop(ours);
            let mut bytes = Vec::new();
            clocks.read_to_end(&mut bytes).unwrap();
            assert_eq!(bytes, [7, number, 1].map(u64::to_le_bytes).concat());
        }
    }
}
