//! The link between the guest's clock and its drives (`clock/clock.c`), as little-endian 64-bit numbers.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use straddle_units::io::Time;

use crate::guest::job::Spent;

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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) now: Time,
    /// The time of the next completion; `None` while nothing is outstanding.
    pub(crate) next: Option<Time>,
    pub(crate) raised: bool,
}

pub(crate) fn receive(stream: &mut UnixStream) -> io::Result<Option<Message>> {
    let Some([kind, at]) = numbers(stream)? else { return Ok(None) };
    let at = Time::from_nanos(at);
    Ok(Some(match kind {
        1 => Message::Kick(at),
        2 => Message::Advance(at),
        3 => Message::Wait(at),
        4 => {
            let Some(report) = numbers(stream)? else { return Ok(None) };
            Message::Report(at, spent(report))
        }
        other => return Err(io::Error::other(format!("the clock sent a message of kind {other}"))),
    }))
}

pub(crate) fn answer(stream: &mut UnixStream, answer: Answer) -> io::Result<()> {
    let next = answer.next.map_or(u64::MAX, Time::get);
    let numbers = [answer.now.get(), next, answer.raised.into()].map(u64::to_le_bytes);
    stream.write_all(numbers.as_flattened())
}

/// Names the numbers of a report, in the order of `clock/clock.h`.
fn spent(report: [u64; 12]) -> Spent {
    let duration = |at: usize| Duration::from_nanos(report[at]);
    Spent {
        clock_reads: report[1],
        stops: report[2],
        kicks: report[3],
        exchanges: report[4],
        sleeps: report[5],
        slept: duration(6),
        ticks: report[7],
        late_ticks: report[8],
        computed: duration(9),
        random_addresses: report[10] != 0,
        digest: report[11],
    }
}

fn numbers<const N: usize>(stream: &mut UnixStream) -> io::Result<Option<[u64; N]>> {
    let mut bytes = [[0; 8]; N];
    match stream.read_exact(bytes.as_flattened_mut()) {
        Ok(()) => Ok(Some(bytes.map(u64::from_le_bytes))),
        // A guest that was killed may leave an answer unread.
        Err(error)
            if matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
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
