//! How much of the server one client can have, when others want some of it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Clients at a time, unless others are asked for; whoever comes after is told so.
pub const MOST_CLIENTS: u16 = 64;
/// Those that are told so, at a time.
pub(super) const MOST_TURNED_AWAY: usize = 16;
/// How long a client may take to come to its first request.
pub(super) const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// How long a vhost-user message may take from its first byte to its last.
pub(super) const MESSAGE_TIME: Duration = Duration::from_secs(1);

/// Large requests that are received at the same time: of 32 MiB each, 256 MiB.
const ROOMS: usize = 8;
/// How long a client may take over one, when others wait.
const ROOM_TIME: Duration = Duration::from_secs(10);

/// Room for large requests: a client has it while one is being received, and the others wait.
#[derive(Debug, Default)]
pub(super) struct Rooms {
    holders: Vec<(u64, Instant)>,
    waiting: VecDeque<u64>,
}

impl Rooms {
    /// Whether the client has room, now that it asks for it; otherwise it waits.
    pub(super) fn ask(&mut self, client: u64, now: Instant) -> bool {
        if self.holds(client) {
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

    /// The client needs none, or is gone; its room goes to the one that is returned.
    pub(super) fn leave(&mut self, client: u64, now: Instant) -> Option<u64> {
        self.waiting.retain(|waiting| *waiting != client);
        let held = self.holders.len();
        self.holders.retain(|(holder, _)| *holder != client);
        let next = if self.holders.len() < held { self.waiting.pop_front() } else { None };
        self.holders.extend(next.map(|next| (next, now)));
        next
    }

    /// A client that has had its room for too long, and when the next one will have had, where somebody waits.
    pub(super) fn overdue(&self, now: Instant) -> (Option<u64>, Option<Instant>) {
        if self.waiting.is_empty() {
            return (None, None);
        }
        match self.holders.iter().min_by_key(|(_, since)| *since) {
            Some((holder, since)) if *since + ROOM_TIME <= now => (Some(*holder), None),
            oldest => (None, oldest.map(|(_, since)| *since + ROOM_TIME)),
        }
    }

    fn holds(&self, client: u64) -> bool {
        self.holders.iter().any(|(holder, _)| *holder == client)
    }
}

/// As many files as the system lets this process have: each client has some, a virtual machine two dozen.
pub(super) fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        // As it was is enough for most.
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
