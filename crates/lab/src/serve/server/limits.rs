//! The limits on what one client can use while others want it too.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The number of clients that are being turned away at a time.
pub(super) const MOST_TURNED_AWAY: usize = 16;
/// The time in which an NBD client must complete the handshake.
pub(super) const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// The time from the first to the last byte of a vhost-user message.
pub(super) const MESSAGE_TIME: Duration = Duration::from_secs(1);

/// Large requests that are received at the same time: 32 MiB each, 256 MiB in total.
const ROOMS: usize = 8;
/// The time that a client may take to send one while others wait.
const ROOM_TIME: Duration = Duration::from_secs(10);

/// Room for large requests. A client holds it while one is being received; other clients wait.
#[derive(Debug, Default)]
pub(super) struct Rooms {
    holders: Vec<(u64, Instant)>,
    waiting: VecDeque<u64>,
}

impl Rooms {
    /// Asks for room. Returns whether the client has it; otherwise the client is queued.
    pub(super) fn ask(&mut self, client: u64, now: Instant) -> bool {
        if self.holders.iter().any(|(holder, _)| *holder == client) {
            return true;
        }
        if self.holders.len() < ROOMS {
            self.holders.push((client, now));
            return true;
        }
        if !self.waiting.contains(&client) {
            self.waiting.push_back(client);
        }
        false
    }

    /// The client needs no room any more, or is gone. Returns the client that gets its room.
    pub(super) fn leave(&mut self, client: u64, now: Instant) -> Option<u64> {
        self.waiting.retain(|waiting| *waiting != client);
        let held = self.holders.len();
        self.holders.retain(|(holder, _)| *holder != client);
        let next = if self.holders.len() < held { self.waiting.pop_front() } else { None };
        self.holders.extend(next.map(|next| (next, now)));
        next
    }

    /// Returns a client that has held its room for too long, or the time at which the next one will have.
    /// Neither while no client waits.
    pub(super) fn overdue(&self, now: Instant) -> (Option<u64>, Option<Instant>) {
        if self.waiting.is_empty() {
            return (None, None);
        }
        match self.holders.iter().min_by_key(|(_, since)| *since) {
            Some((holder, since)) if *since + ROOM_TIME <= now => (Some(*holder), None),
            oldest => (None, oldest.map(|(_, since)| *since + ROOM_TIME)),
        }
    }
}

/// Raises the limit of open files to the maximum: a virtual machine needs two dozen.
pub(super) fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        // If that fails, the current limit is enough for most uses.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rooms_are_handed_on_in_the_order_of_asking_and_nobody_keeps_one_that_others_want() {
        let (mut rooms, start) = (Rooms::default(), Instant::now());
        let holders = 0..ROOMS as u64;
        assert!(holders.clone().all(|client| rooms.ask(client, start)));
        assert_eq!(rooms.overdue(start + ROOM_TIME), (None, None), "nobody waits");
        assert!([100, 101, 100].into_iter().all(|client| !rooms.ask(client, start)));
        assert!(rooms.ask(3, start), "it has one");
        assert_eq!(rooms.overdue(start), (None, Some(start + ROOM_TIME)));
        assert_eq!(rooms.overdue(start + ROOM_TIME), (Some(0), None));
        assert_eq!(rooms.leave(5, start), Some(100));
        assert_eq!(rooms.leave(102, start), None);
        assert_eq!(rooms.leave(101, start), None, "it has waited, and is gone");
        assert_eq!(rooms.leave(100, start), None);
        assert!(rooms.ask(103, start));
    }
}
