//! scratch
#![allow(clippy::unwrap_used, reason = "scratch")]
use std::io::Write;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let script = std::fs::read_to_string(&a[1]).unwrap();
    let start = a.get(3).map(|s| s.parse::<u64>().unwrap() * 512);
    let job = straddle_guest::Job {
        drives: vec![straddle_guest::GuestDrive { profile: straddle_drive::Profile::open(&a[2]).unwrap(), start, size: None, store: None }],
        script, arguments: a.iter().skip(4).cloned().collect(), library: "measure() { local n=$1 t=$EPOCHREALTIME; shift; \"$@\"; local s=$?; echo \"$n $(echo \"$EPOCHREALTIME - $t\" | bc -l)\" >>$RESULTS; return $s; }\n".into(), environment: vec![], input: None, output: None, memory: 1 << 30, seed: 1,
        charges: Default::default(), limits: straddle_guest::Limits { host: std::time::Duration::from_secs(200), ..Default::default() }, cut: None, trace: Some("/tmp/trace.csv".into()), processor: Some(0),
    };
    let r = straddle_guest::run(
        &straddle_guest::Kernel::find().unwrap(),
        &job,
        &|s, b| {
            if s == straddle_guest::Stream::Output {
                std::io::stdout().write_all(b).unwrap()
            } else {
                std::io::stderr().write_all(b).unwrap()
            }
        },
        &std::sync::atomic::AtomicBool::new(false),
    );
    match r {
        Ok(mut e) => {
            e.output.clear();
            e.counters.clear();
            println!("{e:#?}")
        }
        Err(e) => println!("ERROR {e}"),
    }
}
