//! DiskSim's validation traces: `R|W Hit|Miss first_block blocks service_us delay_us`. A block is 512 bytes. The next
//! request arrived `delay_us` after this one completed. The second column, a class, is ignored.

use straddle_units::io::Operation;

use super::{Fields, Line, Lines, Volume, When, sectors, time, wrong};
use crate::error::LineError;

const MICRO: u64 = 1000;

pub(crate) fn is_line(line: &str) -> bool {
    let mut fields = line.split_ascii_whitespace();
    matches!(fields.next(), Some("R" | "W")) && fields.count() == 5
}

#[derive(Debug)]
pub(crate) struct DiskSim;

impl Lines for DiskSim {
    fn line<'a>(&mut self, line: &'a str) -> Result<Option<Line<'a>>, LineError> {
        request(line).map(Some)
    }
}

fn request(line: &str) -> Result<Line<'_>, LineError> {
    let fields = Fields::<6>::of(line.split_ascii_whitespace());
    let field = |column, index| fields.get(column, index);
    let operation = match field("operation", 0)? {
        "R" => Operation::Read,
        "W" => Operation::Write,
        other => return Err(wrong("operation", other, "must be R or W")),
    };
    let bytes = |column, index| sectors(column, field(column, index)?);
    let measured = time("service time", field("service time", 4)?, MICRO)?;
    let then = time("delay", field("delay", 5)?, MICRO)?;
    let (offset, length) = (bytes("first block", 2)?, bytes("blocks", 3)?);
    Ok(Line { volume: Volume::default(), operation, offset, length, when: When::Took { measured, then } })
}

#[cfg(test)]
mod tests {
    use straddle_units::io::Nanos;

    use super::*;

    #[test]
    fn a_line_is_read() {
        let when = When::Took { measured: Nanos::new(14_095_370), then: Nanos::new(13_876_270) };
        let expected = Line {
            volume: Volume::default(),
            operation: Operation::Read,
            offset: 564_347 * 512,
            length: 1024,
            when,
        };
        assert_eq!(request("R Miss  564347     2     14095.370     13876.270"), Ok(expected));
        assert_eq!(request("W Doub 1 1 5 6").unwrap().operation, Operation::Write);
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert_eq!(request("R Hit 1 2 3"), Err(LineError::Missing { column: "delay", fields: 5 }));
        assert!(matches!(request("X Hit 1 2 3 4"), Err(LineError::Field { column: "operation", .. })));
        assert!(matches!(
            request("R Hit 99999999999999999 2 3 4"),
            Err(LineError::Field { column: "first block", .. })
        ));
        assert!(matches!(request("R Hit 1 2 3 x"), Err(LineError::Field { column: "delay", .. })));
    }
}
