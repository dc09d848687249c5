"""Hours of slices, ports and workloads in full; roll-ups; histograms in a third of the room.

A histogram was a list of counts, which its interval gave a weight; now it is the levels that occur
and the milliseconds at each.
"""


def _sparse(name: str) -> str:
    """Write the SQL that turns a dense histogram of migration 1 into its two lists."""
    levels = f"list_filter(range(29)::UTINYINT[], lambda level: {name}_bins[level + 1] > 0)"
    amounts = (
        f"list_transform({levels}, lambda level: "
        f"round({name}_bins[level + 1] * {name}_interval_seconds * 1000)::UINTEGER)"
    )
    absent = f"{name}_bins IS NULL"
    return (
        f"CASE WHEN {absent} THEN NULL ELSE {levels} END AS {name}_levels, "
        f"CASE WHEN {absent} THEN NULL ELSE {amounts} END AS {name}_level_milliseconds"
    )


MIGRATION_2 = f"""
ALTER TABLE card_attribute ADD COLUMN cluster VARCHAR DEFAULT '';
ALTER TABLE card_attribute ADD COLUMN slot VARCHAR DEFAULT '';

CREATE TABLE card_hour_2 (
    card_id INTEGER NOT NULL, hour TIMESTAMP NOT NULL, source VARCHAR NOT NULL,
    owned_seconds DECIMAL(10, 3) NOT NULL, unknown_seconds DECIMAL(10, 3) NOT NULL,
    unallocated_seconds DECIMAL(10, 3) NOT NULL, busy_seconds DECIMAL(10, 3) NOT NULL,
    idle_seconds DECIMAL(10, 3) NOT NULL, unmeasured_seconds DECIMAL(10, 3) NOT NULL,
    observed_seconds DECIMAL(10, 3) NOT NULL,
    allocation_observed_seconds DECIMAL(10, 3) NOT NULL,
    allocated_seconds DECIMAL(10, 3) NOT NULL, busy_observed_seconds DECIMAL(10, 3) NOT NULL,
    kernel_seconds DECIMAL(10, 3) NOT NULL, unrequested_busy_seconds DECIMAL(10, 3) NOT NULL,
    sm_observed_seconds DECIMAL(10, 3) NOT NULL, sm_active_seconds DECIMAL(10, 3) NOT NULL,
    dram_active_seconds DECIMAL(10, 3) NOT NULL,
    throttled_seconds DECIMAL(10, 3), throttle_reason VARCHAR NOT NULL,
    memory_total_bytes BIGINT, memory_used_peak_bytes BIGINT,
    memory_levels UTINYINT[], memory_level_milliseconds UINTEGER[],
    busy_levels UTINYINT[], busy_level_milliseconds UINTEGER[],
    sm_active_levels UTINYINT[], sm_active_level_milliseconds UINTEGER[],
    busy_signal VARCHAR NOT NULL, memory_interval_seconds DOUBLE NOT NULL,
    busy_interval_seconds DOUBLE NOT NULL, sm_active_interval_seconds DOUBLE NOT NULL,
    energy_joules BIGINT, nvlink_bytes BIGINT, pcie_bytes BIGINT,
    xid_count BIGINT, ecc_uncorrected_count BIGINT,
    quality VARCHAR[] NOT NULL, seen_until TIMESTAMP
);
INSERT INTO card_hour_2
SELECT card_id, hour, source, owned_seconds, unknown_seconds, unallocated_seconds, busy_seconds,
    idle_seconds, unmeasured_seconds, observed_seconds, allocation_observed_seconds,
    allocated_seconds, busy_observed_seconds, kernel_seconds, unrequested_busy_seconds,
    0, 0, 0, NULL, '', memory_total_bytes, memory_used_peak_bytes,
    {_sparse("memory")}, {_sparse("busy")}, {_sparse("sm_active")},
    busy_signal, memory_interval_seconds, busy_interval_seconds, sm_active_interval_seconds,
    NULL, NULL, NULL, NULL, NULL, quality, seen_until
FROM card_hour;
DROP TABLE card_hour;
ALTER TABLE card_hour_2 RENAME TO card_hour;

CREATE TABLE workload_hour_2 (
    card_id INTEGER NOT NULL, workload_id INTEGER NOT NULL, slice_id INTEGER,
    hour TIMESTAMP NOT NULL, source VARCHAR NOT NULL,
    allocated_seconds DECIMAL(10, 3) NOT NULL, observed_seconds DECIMAL(10, 3) NOT NULL,
    busy_observed_seconds DECIMAL(10, 3) NOT NULL, busy_seconds DECIMAL(10, 3) NOT NULL,
    wait_seconds DECIMAL(10, 3), wait_bound_seconds DECIMAL(10, 3),
    wait_source VARCHAR NOT NULL, cpu_seconds DECIMAL(10, 3),
    memory_limit_bytes BIGINT, memory_limit_source VARCHAR NOT NULL,
    memory_used_peak_bytes BIGINT,
    memory_levels UTINYINT[], memory_level_milliseconds UINTEGER[],
    busy_levels UTINYINT[], busy_level_milliseconds UINTEGER[],
    memory_interval_seconds DOUBLE NOT NULL, busy_interval_seconds DOUBLE NOT NULL,
    quality VARCHAR[] NOT NULL
);
INSERT INTO workload_hour_2
SELECT card_id, workload_id, NULL, hour, source, allocated_seconds, 0, 0, 0, NULL, NULL, '', NULL,
    NULL, '', NULL, NULL, NULL, NULL, NULL, 0, 0, []
FROM workload_hour;
DROP TABLE workload_hour;
ALTER TABLE workload_hour_2 RENAME TO workload_hour;

CREATE SEQUENCE slice_ids;
CREATE TABLE slice (
    slice_id INTEGER DEFAULT nextval('slice_ids'), slice_uuid VARCHAR NOT NULL,
    card_uuid VARCHAR NOT NULL, kind VARCHAR NOT NULL, gpu_instance_id VARCHAR NOT NULL,
    profile VARCHAR NOT NULL, units INTEGER NOT NULL, card_units INTEGER NOT NULL
);
CREATE TABLE slice_hour (
    card_id INTEGER NOT NULL, slice_id INTEGER NOT NULL,
    hour TIMESTAMP NOT NULL, source VARCHAR NOT NULL,
    owned_seconds DECIMAL(10, 3) NOT NULL, unknown_seconds DECIMAL(10, 3) NOT NULL,
    unallocated_seconds DECIMAL(10, 3) NOT NULL, busy_seconds DECIMAL(10, 3) NOT NULL,
    idle_seconds DECIMAL(10, 3) NOT NULL, unmeasured_seconds DECIMAL(10, 3) NOT NULL,
    observed_seconds DECIMAL(10, 3) NOT NULL,
    allocation_observed_seconds DECIMAL(10, 3) NOT NULL,
    allocated_seconds DECIMAL(10, 3) NOT NULL, busy_observed_seconds DECIMAL(10, 3) NOT NULL,
    kernel_seconds DECIMAL(10, 3) NOT NULL, unrequested_busy_seconds DECIMAL(10, 3) NOT NULL,
    dram_active_seconds DECIMAL(10, 3),
    memory_total_bytes BIGINT, memory_used_peak_bytes BIGINT,
    sm_active_levels UTINYINT[], sm_active_level_milliseconds UINTEGER[],
    sm_active_interval_seconds DOUBLE NOT NULL, quality VARCHAR[] NOT NULL
);
CREATE TABLE workload_attribute (
    workload_id INTEGER NOT NULL, since TIMESTAMP NOT NULL, cluster VARCHAR NOT NULL,
    workload_class VARCHAR NOT NULL, owner_kind VARCHAR NOT NULL, owner VARCHAR NOT NULL,
    team VARCHAR NOT NULL, account VARCHAR NOT NULL, image VARCHAR NOT NULL,
    is_protected BOOLEAN NOT NULL
);
CREATE TABLE oom_hour (
    workload_id INTEGER NOT NULL, hour TIMESTAMP NOT NULL, source VARCHAR NOT NULL,
    cause VARCHAR NOT NULL, count INTEGER NOT NULL
);
CREATE TABLE engine_hour (
    workload_id INTEGER NOT NULL, hour TIMESTAMP NOT NULL, source VARCHAR NOT NULL,
    engine VARCHAR NOT NULL, model VARCHAR NOT NULL, kv_cache_peak_ratio DOUBLE,
    kv_cache_capacity_tokens BIGINT, running_peak DOUBLE, waiting_peak DOUBLE,
    request_count BIGINT, request_p99_seconds DOUBLE, first_token_p99_seconds DOUBLE,
    preemption_count BIGINT, memory_share_ratio DOUBLE
);
CREATE SEQUENCE owner_ids;
CREATE TABLE owner (
    owner_id INTEGER DEFAULT nextval('owner_ids'), cluster VARCHAR NOT NULL,
    namespace VARCHAR NOT NULL, owner_kind VARCHAR NOT NULL, owner VARCHAR NOT NULL
);
CREATE TABLE owner_hour (
    owner_id INTEGER NOT NULL, hour TIMESTAMP NOT NULL, source VARCHAR NOT NULL,
    observed_seconds DECIMAL(10, 3) NOT NULL, replicas_mean DOUBLE NOT NULL,
    replicas_min INTEGER NOT NULL, replicas_max INTEGER NOT NULL,
    scale_up_count INTEGER NOT NULL, scale_down_count INTEGER NOT NULL, is_autoscaled BOOLEAN
);
CREATE SEQUENCE port_ids;
CREATE TABLE port (
    port_id INTEGER DEFAULT nextval('port_ids'), node VARCHAR NOT NULL, device VARCHAR NOT NULL,
    port VARCHAR NOT NULL, kind VARCHAR NOT NULL
);
CREATE TABLE port_attribute (
    port_id INTEGER NOT NULL, since TIMESTAMP NOT NULL, netdev VARCHAR NOT NULL,
    driver VARCHAR NOT NULL, link_layer VARCHAR NOT NULL, hca_type VARCHAR NOT NULL,
    rate_bytes_per_second DOUBLE, rail VARCHAR NOT NULL, switch VARCHAR NOT NULL,
    switch_port VARCHAR NOT NULL
);
CREATE TABLE nic_hour (
    port_id INTEGER NOT NULL, hour TIMESTAMP NOT NULL, source VARCHAR NOT NULL,
    observed_seconds DECIMAL(10, 3) NOT NULL, receive_bytes BIGINT, transmit_bytes BIGINT,
    pause_received_seconds DECIMAL(10, 3), pause_transmitted_seconds DECIMAL(10, 3),
    pause_received_peak_ratio DOUBLE, pause_transmitted_peak_ratio DOUBLE,
    loss_count BIGINT, congestion_count BIGINT, error_count BIGINT, link_down_count BIGINT
);

-- Days that have been summed: what is missing here is summed from its hours. Without hours: they
-- were dropped for their age, and the sums are all there is.
CREATE TABLE rolled_day (day TIMESTAMP NOT NULL, has_hours BOOLEAN NOT NULL);
CREATE TABLE card_day (
    card_id INTEGER NOT NULL, day TIMESTAMP NOT NULL, first_hour TIMESTAMP NOT NULL,
    seen_until TIMESTAMP, hour_count INTEGER NOT NULL, sources VARCHAR[] NOT NULL,
    owned_seconds DECIMAL(10, 3) NOT NULL, unknown_seconds DECIMAL(10, 3) NOT NULL,
    unallocated_seconds DECIMAL(10, 3) NOT NULL, busy_seconds DECIMAL(10, 3) NOT NULL,
    idle_seconds DECIMAL(10, 3) NOT NULL, unmeasured_seconds DECIMAL(10, 3) NOT NULL,
    observed_seconds DECIMAL(10, 3) NOT NULL,
    allocation_observed_seconds DECIMAL(10, 3) NOT NULL,
    allocated_seconds DECIMAL(10, 3) NOT NULL, busy_observed_seconds DECIMAL(10, 3) NOT NULL,
    kernel_seconds DECIMAL(10, 3) NOT NULL, unrequested_busy_seconds DECIMAL(10, 3) NOT NULL,
    sm_observed_seconds DECIMAL(10, 3) NOT NULL, sm_active_seconds DECIMAL(10, 3) NOT NULL,
    dram_active_seconds DECIMAL(10, 3) NOT NULL, throttled_seconds DECIMAL(10, 3),
    memory_total_bytes BIGINT, memory_used_peak_bytes BIGINT, held_peaks_bytes BIGINT[] NOT NULL,
    memory_levels UTINYINT[], memory_level_milliseconds UINTEGER[],
    busy_levels UTINYINT[], busy_level_milliseconds UINTEGER[],
    sm_active_levels UTINYINT[], sm_active_level_milliseconds UINTEGER[],
    engine_hour_count INTEGER NOT NULL, gauge_hour_count INTEGER NOT NULL,
    interval_seconds DOUBLE NOT NULL, energy_joules BIGINT, nvlink_bytes BIGINT,
    pcie_bytes BIGINT, xid_count BIGINT, ecc_uncorrected_count BIGINT,
    shared_hour_count INTEGER NOT NULL, quality VARCHAR[] NOT NULL
);
CREATE TABLE workload_day (
    card_id INTEGER NOT NULL, workload_id INTEGER NOT NULL, day TIMESTAMP NOT NULL,
    hour_count INTEGER NOT NULL, last_hour TIMESTAMP NOT NULL, most_cards INTEGER NOT NULL,
    allocated_seconds DECIMAL(10, 3) NOT NULL, busy_seconds DECIMAL(10, 3) NOT NULL,
    wait_seconds DECIMAL(10, 3), memory_used_peak_bytes BIGINT
);

-- What a price book said while it was in force: of months gone by money stays as it was.
CREATE TABLE price (
    since TIMESTAMP NOT NULL, kind VARCHAR NOT NULL, channel VARCHAR NOT NULL,
    name VARCHAR NOT NULL, nvml_name_regex VARCHAR NOT NULL, currency VARCHAR NOT NULL,
    low_per_month DECIMAL(18, 6), high_per_month DECIMAL(18, 6), is_estimate BOOLEAN NOT NULL
);
"""
