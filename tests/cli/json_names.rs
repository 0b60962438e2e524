//! The property names in the published JSON.

use super::straddle;

/// Numbers without a unit in their names: counts, ratios, shares, indexes, and others that have no unit.
const PLAIN: &str = "attributes entries lowest highest exchanges ticks range clients outstanding layout drive_reads kernel_reads kernel_writes runs figures device_commands discards ignored_discards errors flushes lost_events reads writes warnings amplification off_sector_requests other_lines partial_units straddling_requests partial_head_requests partial_tail_requests late_requests written_units early_units touched_units advice aligned audits_replaced disks findings hosts hosts_named_by_files median_random_write_ratio misaligned_errors misaligned_ratio \
    misaligned_warnings other_findings worst_random_write_ratio after ashift before blank blocks blocks_requested blocks_sampled broken_clients cache_hits cached_writes \
    clock_reads cost_ratio destages discards erases error error_after efficiency_ratio error_before evaluations failed failed_requests first_track flushes host_discards host_flushes host_reads host_writes \
    high iops judged kicks late_ticks level limit low margin merged_writes misaligned_requests misaligned_share modelled \
    not_judged number ok ours partition precision published published_ratio queue_depth raid_disks random_write_ratio ratio first_write_amplification second_write_amplification \
    wear_ratio worst_wear_ratio write_amplification ratio_error ratio_high ratio_low reads replies requests rmw_reads rmw_reads_per_request \
    role rounds sampling fitted worst_ratio scale schema seed seeks sequential_write_ratio serpentine_tracks sleeps status stops stripes surfaces targets tracks value \
    version warmups warning within worst_after worst_before worst_nearby wrapped_requests writes writes_per_fsync year";

/// Collects every property of a schema, and whether it is a number.
fn properties(schema: &serde_json::Value, found: &mut Vec<(String, bool)>) {
    fn is_number(of: &serde_json::Value) -> bool {
        let has = |kind: &serde_json::Value| matches!(kind.as_str(), Some("integer" | "number"));
        let kind = &of["type"];
        has(kind)
            || kind.as_array().is_some_and(|all| all.iter().any(has))
            || of.get("items").is_some_and(is_number)
    }
    for (key, inside) in schema.as_object().into_iter().flatten() {
        if key == "properties" {
            found.extend(
                inside.as_object().into_iter().flatten().map(|(name, of)| (name.clone(), is_number(of))),
            );
        }
        properties(inside, found);
    }
    schema.as_array().into_iter().flatten().for_each(|inside| properties(inside, found));
}

#[test]
fn json_names_carry_their_units_and_types_read_well() {
    const UNITS: [&str; 7] = ["bytes", "ns", "seconds", "lba", "sectors", "rpm", "percent"];
    const COMMANDS: [&str; 19] = [
        "report",
        "check",
        "plan",
        "realign",
        "realign-to",
        "explain",
        "explain-rmw",
        "efficiency",
        "bench",
        "drive",
        "drive-fit",
        "trace",
        "trace-record",
        "sim",
        "serve",
        "lab",
        "probe",
        "probe-share",
        "reproduce",
    ];
    for command in COMMANDS {
        let schema = straddle(&["schema", command]).json();
        let id = schema["$id"].as_str().unwrap();
        assert!(id.contains(&format!("/schema/{command}/")), "{command}: {id}");
        for name in schema["$defs"].as_object().into_iter().flatten().map(|(name, _)| name) {
            let is_plain = name.starts_with(char::is_uppercase) && name.chars().all(char::is_alphabetic);
            assert!(is_plain && !name.contains("Report"), "{command}: a type {name}");
        }
        let mut found = Vec::new();
        properties(&schema, &mut found);
        for name in ["schema", "straddle"] {
            assert!(found.iter().any(|(found, _)| found == name), "{command}: no {name}");
        }
        assert!(found.len() > 6, "{command}: {found:?}");
        for (name, is_number) in found {
            assert!(!["is", "told", "moving", "remarks"].contains(&&*name), "{command}: {name}");
            let has_unit = name.split('_').any(|word| UNITS.contains(&word));
            let known = has_unit || PLAIN.split_whitespace().any(|plain| plain == name);
            assert!(!is_number || known, "{command}: {name} has no unit");
        }
    }
}
