//! Random accounts there and back, in parts and in any order, and bytes with random damage.

use proptest::prelude::*;
use straddle_units::io::{Nanos, Operation, SplitMix64};

use super::*;
use crate::coalesce::Window;
use crate::format::How;
use crate::reader::Reader;

/// A request: its volume, what it is, its first byte and its length.
type Asked = (u8, Operation, u64, u64);

fn asked() -> impl Strategy<Value = Asked> {
    let operation = prop_oneof![
        Just(Operation::Read),
        Just(Operation::Write),
        Just(Operation::WriteFua),
        Just(Operation::Discard),
        Just(Operation::Flush),
    ];
    let length = prop_oneof![0_u64..4, (1_u64..9000).prop_map(|n| n * 512), 0_u64..1 << 44];
    (0_u8..3, operation, 0_u64..1 << 60, length)
}

fn account(requests: &[Asked]) -> Account {
    let mut text = String::from("time_us,op,offset,length,volume\n");
    for (volume, operation, offset, length) in requests {
        let letter = crate::columns::letter(*operation);
        text.push_str(&format!("7,{letter},{offset},{length},v{volume}\n"));
    }
    let mut account = Account::new();
    let how = How::default();
    account.read(Reader::new(text.as_bytes(), "t", &how), None).unwrap();
    account
}

/// A checksum behind bytes.
fn signed(mut body: Vec<u8>) -> Vec<u8> {
    let sum = crc32fast::hash(&body);
    body.extend(sum.to_le_bytes());
    body
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn an_account_comes_back_and_its_parts_are_the_same_bytes_in_any_order(
        mut requests in prop::collection::vec(asked(), 0..60),
        places in prop::collection::vec(0_usize..60, 0..4),
        seed in any::<u64>(),
    ) {
        let whole = account(&requests);
        let bytes = whole.to_bytes();
        let again = Account::from_bytes(&bytes).unwrap();
        prop_assert_eq!(&again, &whole);
        prop_assert_eq!(&again.to_bytes(), &bytes);
        // Shuffled, cut, and each part there and back.
        let mut random = SplitMix64::new(seed);
        for last in (1..requests.len()).rev() {
            requests.swap(last, usize::try_from(random.below(last as u64 + 1)).unwrap());
        }
        let mut cuts: Vec<usize> = places.into_iter().map(|place| place.min(requests.len())).collect();
        cuts.extend([0, requests.len()]);
        cuts.sort_unstable();
        // The header of each part is a line that is not a request.
        let mut all = Account { others: 0, ..Account::new() };
        for cut in cuts.windows(2) {
            let part = account(&requests[cut[0]..cut[1]]);
            let part = Account { others: 0, ..Account::from_bytes(&part.to_bytes()).unwrap() };
            all.join(part);
        }
        prop_assert_eq!(all.to_bytes(), Account { others: 0, ..whole }.to_bytes());
    }

    #[test]
    fn other_bytes_are_no_account_or_are_what_is_written_of_it(
        requests in prop::collection::vec(asked(), 0..20),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
        is_cut in any::<bool>(),
    ) {
        let good = account(&requests).to_bytes();
        let mut body = good[..good.len() - 4].to_vec();
        if is_cut {
            body.truncate(cut.index(body.len()));
        } else {
            for (place, byte) in changes {
                *place.get_mut(&mut body) = byte;
            }
        }
        let bytes = signed(body);
        if let Ok(account) = Account::from_bytes(&bytes) {
            prop_assert_eq!(account.to_bytes(), bytes);
            let mut twice = account.clone();
            twice.join(account.clone());
            for unit in crate::UNITS {
                prop_assert!(twice.total().writes.effects(unit).is_some());
            }
        }
    }
}

#[test]
fn what_is_wrong_is_said() {
    let good = account(&[(1, Operation::Write, 512, 512)]).to_bytes();
    let error = |bytes: &[u8]| Account::from_bytes(bytes).unwrap_err().to_string();
    assert_eq!(error(b""), "not a straddle histogram");
    assert_eq!(error(b"PAR1 and more"), "not a straddle histogram");
    let mut newer = good.clone();
    newer[8] = 9;
    assert!(error(&newer).contains("has format version 9"), "{}", error(&newer));
    assert!(error(&good[..good.len() - 1]).contains("damaged or truncated"));
    let mut flipped = good.clone();
    *flipped.last_mut().unwrap() ^= 1;
    assert!(error(&flipped).contains("damaged or truncated"));
    let body = &good[..good.len() - 4];
    assert!(error(&signed([body, &[0]].concat())).contains("unexpected bytes after the end"));
    // 2^61 requests of one class.
    let mut many = body.to_vec();
    let at = many.len() - 4;
    assert_eq!(many[at..], [1, 0, 0, 0], "one request, no discards, no flushes");
    many.splice(at..=at, [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x20]);
    assert!(error(&signed(many)).contains("more requests than any trace can have"));
}

#[test]
fn what_is_left_behind_a_window_is_not_kept() {
    let text = "time_us,op,offset,length\n1,W,512,512\n2,W,1024,512\n900000,W,0,4096\n";
    let window = Window { within: Nanos::new(1_000_000), units: vec![8, 16], start: 0 };
    let mut account = Account::new();
    account.read(Reader::new(text.as_bytes(), "t", &How::default()), Some(&window)).unwrap();
    assert!(account.volumes().all(|(_, volume)| volume.coalesced.len() == 2));
    let mut plain = Account::new();
    plain.read(Reader::new(text.as_bytes(), "t", &How::default()), None).unwrap();
    assert_eq!(Account::from_bytes(&account.to_bytes()).unwrap(), plain);
    // Of other units it does not count as that of these.
    let mut other = Account::new();
    let window = Window { units: vec![16, 32], ..window };
    other.read(Reader::new(text.as_bytes(), "t", &How::default()), Some(&window)).unwrap();
    let of = |account: &Account, unit| {
        account.total().coalesced.iter().find(|one| one.unit == unit).map(|one| one.written)
    };
    let (one, two) = ((of(&account, 8), of(&account, 16)), (of(&other, 16), of(&other, 32)));
    account.join(other);
    assert_eq!((of(&account, 8), of(&account, 32)), (one.0, two.1));
    assert_eq!(of(&account, 16), one.1.zip(two.0).map(|(one, two)| one + two));
}
