//! Parts of the disk model that can be removed, to show what each contributes.

use straddle_units::io::Nanos;

use super::{Direction, DiskParameters, Geometry, HeadTimes, SegmentRules};

/// A part of the model of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelPart {
    /// Sectors without an address: spares, slipped sectors, the management area.
    Gaps,
    /// A settling time of writes that differs from that of reads.
    WriteSettling,
    /// The times by command, and the link as a resource: flat overheads remain.
    CommandTimes,
    /// The times that differ after a write.
    TimesAfterWrite,
    /// Reading ahead.
    ReadAhead,
    /// The read cache.
    ReadCache,
    /// The rules for segments: plain ones remain.
    SegmentRules,
    /// Segments with written data.
    KeptWrites,
    /// Sectors kept that pass while the heads wait for the first requested one.
    KeptPassing,
    /// Reading in the order in which sectors pass.
    ZeroLatencyReads,
    /// Waiting for data before a write begins.
    WaitForData,
}

impl DiskParameters {
    /// Removes `part`. What remains is possible if this was.
    pub(crate) fn remove(&mut self, part: ModelPart) {
        match part {
            ModelPart::Gaps => {
                let zones: Vec<_> = self.geometry.zones().map(|(_, zone)| *zone).collect();
                if let Ok(plain) = Geometry::new(&zones, self.geometry.surfaces(), 1, Direction::Forward) {
                    self.geometry = plain;
                }
            }
            ModelPart::WriteSettling => {
                self.write_seek = None;
                self.heads = HeadTimes { head_switch: self.heads.head_switch, ..HeadTimes::default() };
            }
            ModelPart::CommandTimes => self.firmware.times = None,
            ModelPart::TimesAfterWrite => {
                if let Some(times) = &mut self.firmware.times {
                    for history in [&mut times.read_hit, &mut times.read_miss, &mut times.write] {
                        history.after_write = history.after_read;
                    }
                }
            }
            ModelPart::ReadAhead => self.read_cache.read_ahead = 0,
            ModelPart::ReadCache => self.read_cache.segments = 0,
            ModelPart::SegmentRules => self.firmware.segments = SegmentRules::default(),
            ModelPart::KeptWrites => self.firmware.segments.keeps_written = false,
            ModelPart::KeptPassing => self.firmware.segments.keeps_passed = false,
            ModelPart::ZeroLatencyReads => self.firmware.reads_on_arrival = false,
            ModelPart::WaitForData => {
                if let Some(times) = &mut self.firmware.times {
                    (times.write_begins_with, times.write_travel) = (1, Nanos::ZERO);
                }
            }
        }
    }
}
