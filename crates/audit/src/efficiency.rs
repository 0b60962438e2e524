//! Format efficiency, the share of a track that holds data: the reason for larger sectors.

use schemars::JsonSchema;
use serde::Serialize;

/// The layout of a sector on the medium, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "SectorFormat")]
pub struct Format {
    /// User data.
    #[serde(rename = "data_bytes")]
    pub data: u32,
    /// Gap, synchronisation and address mark before the data.
    #[serde(rename = "overhead_bytes")]
    pub overhead: u32,
    /// Error-correcting code after the data.
    #[serde(rename = "ecc_bytes")]
    pub ecc: u32,
}

impl Format {
    /// The 512-byte sector of drives before Advanced Format: 15 bytes of gap, sync and address mark, 50 of
    /// ECC (IDEMA, Advanced Format technology brief).
    pub const LEGACY: Self = Self { data: 512, overhead: 15, ecc: 50 };
    /// The 4096-byte sector of Advanced Format: the same 15 bytes once, and 100 of ECC.
    pub const ADVANCED: Self = Self { data: 4096, overhead: 15, ecc: 100 };

    /// The bytes that the sector takes on the medium.
    pub fn total(self) -> u64 {
        u64::from(self.data) + u64::from(self.overhead) + u64::from(self.ecc)
    }
}

/// The share of the medium that holds data, from 0 to 1; 0 for an empty sector.
pub fn format_efficiency(format: Format) -> f64 {
    let total = f64::from(format.data) + f64::from(format.overhead) + f64::from(format.ecc);
    if total == 0.0 { 0.0 } else { f64::from(format.data) / total }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_efficiencies_come_out() {
        let percent = |format| (format_efficiency(format) * 1000.0).round() / 10.0;
        assert!((percent(Format::LEGACY) - 88.7).abs() < 1e-9);
        assert!((percent(Format::ADVANCED) - 97.3).abs() < 1e-9);
    }
}
