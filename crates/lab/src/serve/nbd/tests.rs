//! Negotiation and requests, byte by byte as in the protocol's document.

use super::*;

fn export() -> Export {
    Export {
        name: "disk".to_owned(),
        description: "a disk".to_owned(),
        size: 1 << 20,
        minimum_block: 512,
        preferred_block: 4096,
        rotational: true,
        trim: true,
    }
}

/// A request that the session returned, with its data.
type Got = (u64, Kind, u64, u32, Vec<u8>);

/// Gives the session these bytes in pieces. Returns the requests, and all that the session has sent since.
fn feed(session: &mut Session, bytes: &[u8], piece: usize) -> Result<(Vec<Got>, Vec<u8>), Violation> {
    let mut got = Vec::new();
    for piece in bytes.chunks(piece) {
        session.input()[..piece.len()].copy_from_slice(piece);
        session.received(piece.len());
        while let Some(wanted) = session.next(&export())? {
            got.push((wanted.cookie, wanted.kind, wanted.offset, wanted.length, wanted.data.to_vec()));
        }
    }
    let sent = session.output().to_vec();
    session.sent(sent.len());
    Ok((got, sent))
}

fn option(number: u32, data: &[u8]) -> Vec<u8> {
    let length = u32::try_from(data.len()).unwrap();
    [b"IHAVEOPT", &number.to_be_bytes()[..], &length.to_be_bytes(), data].concat()
}

fn answer(number: u32, code: u32, data: &[u8]) -> Vec<u8> {
    let length = u32::try_from(data.len()).unwrap().to_be_bytes();
    [&0x0003_e889_0455_65a9_u64.to_be_bytes()[..], &number.to_be_bytes(), &code.to_be_bytes(), &length, data]
        .concat()
}

fn request(flags: u16, code: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    let (flags, code) = (flags.to_be_bytes(), code.to_be_bytes());
    let magic = 0x2560_9513_u32.to_be_bytes();
    [&magic[..], &flags, &code, &cookie.to_be_bytes(), &offset.to_be_bytes(), &length.to_be_bytes()].concat()
}

fn reply(cookie: u64, error: u32) -> Vec<u8> {
    [&0x6744_6698_u32.to_be_bytes()[..], &error.to_be_bytes(), &cookie.to_be_bytes()].concat()
}

/// Returns a session whose client has sent its flags.
fn greeted() -> Session {
    let mut session = Session::begin();
    let (_, greeting) = feed(&mut session, &3_u32.to_be_bytes(), 4).unwrap();
    assert_eq!(greeting, [&b"NBDMAGICIHAVEOPT"[..], &[0, 3]].concat());
    session
}

fn transmitting() -> Session {
    let mut session = greeted();
    feed(&mut session, &option(1, b"disk"), 7).unwrap();
    assert!(session.is_transmitting());
    session
}

const FLAGS: u16 = 0b1_0111_1101;

#[test]
fn go_tells_size_flags_and_blocks_and_begins() {
    for piece in [1, 5, 1000] {
        let mut session = greeted();
        let data = [&4_u32.to_be_bytes()[..], b"disk", &[0, 1, 0, 1]].concat();
        let (_, sent) = feed(&mut session, &option(7, &data), piece).unwrap();
        let size = [&[0, 0][..], &(1_u64 << 20).to_be_bytes(), &FLAGS.to_be_bytes()].concat();
        let blocks = [0, 3, 0, 0, 2, 0, 0, 0, 16, 0, 2, 0, 0, 0];
        let expected =
            [answer(7, 3, &size), answer(7, 3, b"\0\x01disk"), answer(7, 3, &blocks), answer(7, 1, &[])];
        assert_eq!(sent, expected.concat());
        assert!(session.is_transmitting());
    }
}

#[test]
fn info_goes_on_and_the_default_export_is_the_same() {
    let mut session = greeted();
    let data = [0, 0, 0, 0, 0, 1, 0, 2];
    let (_, sent) = feed(&mut session, &option(6, &data), 3).unwrap();
    assert!(sent.ends_with(&answer(6, 1, &[])) && sent.windows(6).any(|part| part == b"a disk"));
    assert!(!session.is_transmitting());
}

#[test]
fn what_is_unknown_or_wrong_is_refused_and_haggling_goes_on() {
    let mut session = greeted();
    let refusals: [(Vec<u8>, u32); 9] = [
        (option(8, &[]), 1),
        (option(5, &[]), 1),
        (option(10, b"whatever"), 1),
        (option(99, b"whatever"), 1),
        (option(3, b"x"), 3),
        (option(7, b"\0\0"), 3),
        (option(7, &[0, 0, 0, 9, b'd', 0, 0]), 3),
        (option(7, &[0, 0, 0, 0, 0, 2, 0, 3]), 3),
        (option(7, &[0, 0, 0, 1, b'x', 0, 0]), 6),
    ];
    for (bytes, code) in refusals {
        let (_, sent) = feed(&mut session, &bytes, 11).unwrap();
        assert_eq!(sent[12..16], (1 << 31 | code).to_be_bytes(), "{bytes:?}");
    }
    let (_, sent) = feed(&mut session, &option(3, &[]), 100).unwrap();
    let server = [&4_u32.to_be_bytes()[..], b"diska disk"].concat();
    assert_eq!(sent, [answer(3, 2, &server), answer(3, 1, &[])].concat());
    let (_, sent) = feed(&mut session, &option(2, &[]), 100).unwrap();
    assert_eq!(sent, answer(2, 1, &[]));
    assert!(session.is_over());
}

#[test]
fn export_name_begins_with_and_without_zeroes() {
    for (flags, zeroes) in [(1_u32, 124), (3, 0)] {
        let mut session = Session::begin();
        let bytes = [&flags.to_be_bytes()[..], &option(1, &[])].concat();
        let (_, sent) = feed(&mut session, &bytes, 1).unwrap();
        let expected = [&(1_u64 << 20).to_be_bytes()[..], &FLAGS.to_be_bytes(), &vec![0; zeroes]].concat();
        assert_eq!(sent[18..], expected);
    }
}

#[test]
fn who_breaks_the_protocol_is_cut_off() {
    let flags = feed(&mut Session::begin(), &4_u32.to_be_bytes(), 4).unwrap_err();
    assert_eq!(flags, Violation::ClientFlags(4));
    let garbage = feed(&mut greeted(), &[b'x'; 16], 4).unwrap_err();
    assert!(matches!(garbage, Violation::OptionMagic(_)));
    let long = [b"IHAVEOPT", &7_u32.to_be_bytes()[..], &u32::MAX.to_be_bytes()].concat();
    assert_eq!(
        feed(&mut greeted(), &long, 4).unwrap_err(),
        Violation::LongOption { option: 7, length: u32::MAX }
    );
    assert_eq!(feed(&mut greeted(), &option(1, b"no"), 4).unwrap_err(), Violation::NoSuchExport);
    let garbage = feed(&mut transmitting(), &[1; 28], 4).unwrap_err();
    assert_eq!(garbage, Violation::RequestMagic(0x0101_0101));
}

#[test]
fn requests_come_out_whole_and_in_order() {
    let data: Vec<u8> = (0..1024_u32).map(|byte| byte.to_be_bytes()[3]).collect();
    let bytes = [
        request(1, 1, 10, 512, 1024),
        data.clone(),
        request(0, 0, 11, 0, 4096),
        request(0, 3, 12, 0, 0),
        request(1, 4, 13, 4096, 8192),
        request(2, 6, 14, 0, 512),
        request(0, 6, 15, 0, 1 << 20),
    ]
    .concat();
    for piece in [1, 13, 4000] {
        let mut session = transmitting();
        let (got, sent) = feed(&mut session, &bytes, piece).unwrap();
        assert!(sent.is_empty());
        let expected: [Got; 6] = [
            (10, Kind::Write { fua: true }, 512, 1024, data.clone()),
            (11, Kind::Read, 0, 4096, vec![]),
            (12, Kind::Flush, 0, 0, vec![]),
            (13, Kind::Trim, 4096, 8192, vec![]),
            (14, Kind::WriteZeroes { fua: false, hole: false }, 0, 512, vec![]),
            (15, Kind::WriteZeroes { fua: false, hole: true }, 0, 1 << 20, vec![]),
        ];
        assert_eq!(got, expected);
        session.complete(10, 0, None);
        session.complete(11, 0, Some((0, 4096)));
        session
            .fill(|offset, bytes| {
                assert_eq!(offset, 0);
                bytes.fill(7);
                Ok(())
            })
            .unwrap();
        assert_eq!(session.output(), [reply(10, 0), reply(11, 0), vec![7; 4096]].concat());
    }
}

#[test]
fn impossible_requests_get_an_error_and_their_data_are_skipped() {
    let large = LARGEST_REQUEST + 512;
    let cases = [
        (request(0, 0, 1, 100, 512), 0, errno::EINVAL),
        (request(0, 1, 2, 0, 100), 100, errno::EINVAL),
        (request(0, 0, 3, 1 << 20, 512), 0, errno::EINVAL),
        (request(0, 1, 4, 1 << 20, 512), 512, errno::ENOSPC),
        (request(0, 6, 5, u64::MAX - 511, 512), 0, errno::ENOSPC),
        (request(0, 1, 6, 0, large), large as usize, errno::EINVAL),
        (request(0, 0, 7, 0, large), 0, errno::EINVAL),
        (request(0, 0, 8, 0, 0), 0, errno::EINVAL),
        (request(0, 7, 9, 0, 512), 0, errno::EINVAL),
        (request(4, 0, 10, 0, 512), 0, errno::EINVAL),
        (request(0, 3, 11, 512, 0), 0, errno::EINVAL),
    ];
    let mut session = transmitting();
    for (cookie, (bytes, payload, error)) in (1..).zip(cases) {
        let bytes = [bytes, vec![0xee; payload]].concat();
        let (got, sent) = feed(&mut session, &bytes, 100_000).unwrap();
        assert_eq!((got, sent), (vec![], reply(cookie, error)));
    }
    let (got, _) = feed(&mut session, &request(0, 0, 12, 0, 512), 3).unwrap();
    assert_eq!(got.len(), 1);
    assert!(session.input().len() < 2 << 20, "what is skipped is not kept");
}

#[test]
fn a_client_that_does_not_fetch_its_replies_is_not_read_from() {
    let mut session = transmitting();
    let reads: Vec<u8> = (0..3000).flat_map(|cookie| request(0, 0, cookie, 0, 1 << 20)).collect();
    let (got, _) = feed(&mut session, &reads, reads.len()).unwrap();
    assert_eq!(got.len(), 64);
    assert!(!session.is_ready());
    for (cookie, ..) in &got {
        session.complete(*cookie, 0, Some((0, 1 << 20)));
    }
    assert!(!session.is_ready());
    // Whatever the client requested, no more is in memory than can soon be sent.
    let mut sent = 0;
    loop {
        session.fill(|_, _| Ok(())).unwrap();
        let length = session.output().len();
        assert!(length < 1 << 20, "{length} bytes in memory");
        if length == 0 {
            break;
        }
        sent += length;
        session.sent(length);
    }
    assert_eq!(sent, 64 * (16 + (1 << 20)));
    assert!(session.is_ready() && session.next(&export()).unwrap().is_some());
    let flushes: Vec<u8> = (0..3000).flat_map(|cookie| request(0, 3, cookie, 0, 0)).collect();
    let (got, _) = feed(&mut transmitting(), &flushes, 1 << 20).unwrap();
    assert_eq!(got.len(), 1024);
}

#[test]
fn a_failing_store_is_an_error_and_no_data() {
    let mut session = transmitting();
    feed(&mut session, &request(0, 0, 5, 0, 512), 28).unwrap();
    let fails = |_: u64, _: &mut [u8]| Err(std::io::ErrorKind::Other.into());
    session.complete(5, 0, Some((0, 512)));
    session.fill(fails).unwrap();
    assert_eq!(session.output(), reply(5, errno::EIO));
    // Within a reply an error can no longer be reported.
    feed(&mut session, &request(0, 0, 6, 0, 1 << 20), 28).unwrap();
    session.complete(6, 0, Some((0, 1 << 20)));
    session.fill(|_, _| Ok(())).unwrap();
    session.sent(session.output().len());
    assert!(session.fill(fails).is_err());
}

#[test]
fn replies_leave_in_order_and_in_pieces_with_the_bytes_of_their_places() {
    let mut session = transmitting();
    let requests =
        [request(0, 0, 1, 4096, 700_000 / 512 * 512), request(0, 3, 2, 0, 0), request(0, 0, 3, 512, 512)];
    feed(&mut session, &requests.concat(), 1000).unwrap();
    let large = 700_000 / 512 * 512;
    session.complete(1, 0, Some((4096, large)));
    session.complete(2, 0, None);
    session.complete(3, 0, Some((512, 512)));
    let byte = |at: u64| u8::try_from(at / 512 % 251).unwrap();
    let mut all = Vec::new();
    while {
        let read = |offset: u64, buffer: &mut [u8]| {
            for (at, into) in (offset..).zip(buffer) {
                *into = byte(at);
            }
            Ok(())
        };
        session.fill(read).unwrap();
        !session.output().is_empty()
    } {
        let some = session.output().len().min(99_999);
        all.extend_from_slice(&session.output()[..some]);
        session.sent(some);
    }
    let data = |from: u64, length: u32| (from..from + u64::from(length)).map(byte).collect::<Vec<u8>>();
    let expected = [reply(1, 0), data(4096, large), reply(2, 0), reply(3, 0), data(512, 512)].concat();
    assert!(all == expected, "{} bytes beside {}", all.len(), expected.len());
    assert!(session.is_ready());
}

#[test]
fn a_disconnect_is_over_when_all_is_answered() {
    let mut session = transmitting();
    let bytes = [request(0, 0, 5, 0, 512), request(0, 2, 6, 0, 0)].concat();
    feed(&mut session, &bytes, 100).unwrap();
    assert!(!session.is_ready() && !session.is_over());
    session.complete(5, 0, Some((0, 512)));
    assert!(!session.is_over());
    session.fill(|_, _| Ok(())).unwrap();
    assert!(!session.is_over());
    session.sent(528);
    assert!(session.is_over());
}
