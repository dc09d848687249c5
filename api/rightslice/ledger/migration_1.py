"""The first tables: hours of cards and of who held them."""

MIGRATION_1 = """
CREATE SEQUENCE card_ids;
CREATE TABLE card (card_id INTEGER DEFAULT nextval('card_ids'), uuid VARCHAR NOT NULL);
CREATE TABLE card_attribute (
    card_id INTEGER NOT NULL, since TIMESTAMP NOT NULL,
    node VARCHAR NOT NULL, name VARCHAR NOT NULL
);
CREATE SEQUENCE workload_ids;
CREATE TABLE workload (
    workload_id INTEGER DEFAULT nextval('workload_ids'),
    kind VARCHAR NOT NULL, namespace VARCHAR NOT NULL,
    pod VARCHAR NOT NULL, container VARCHAR NOT NULL
);
CREATE TABLE card_hour (
    card_id INTEGER NOT NULL, hour TIMESTAMP NOT NULL, source VARCHAR NOT NULL,
    owned_seconds DECIMAL(10, 3) NOT NULL, unknown_seconds DECIMAL(10, 3) NOT NULL,
    unallocated_seconds DECIMAL(10, 3) NOT NULL, busy_seconds DECIMAL(10, 3) NOT NULL,
    idle_seconds DECIMAL(10, 3) NOT NULL, unmeasured_seconds DECIMAL(10, 3) NOT NULL,
    observed_seconds DECIMAL(10, 3) NOT NULL, allocation_observed_seconds DECIMAL(10, 3) NOT NULL,
    allocated_seconds DECIMAL(10, 3) NOT NULL, busy_observed_seconds DECIMAL(10, 3) NOT NULL,
    kernel_seconds DECIMAL(10, 3) NOT NULL,
    unrequested_busy_seconds DECIMAL(10, 3) NOT NULL,
    memory_total_bytes BIGINT, memory_used_peak_bytes BIGINT,
    memory_bins DOUBLE[], busy_bins DOUBLE[], sm_active_bins DOUBLE[],
    busy_signal VARCHAR NOT NULL, memory_interval_seconds DOUBLE NOT NULL,
    busy_interval_seconds DOUBLE NOT NULL, sm_active_interval_seconds DOUBLE NOT NULL,
    quality VARCHAR[] NOT NULL, seen_until TIMESTAMP
);
CREATE TABLE workload_hour (
    workload_id INTEGER NOT NULL, card_id INTEGER NOT NULL, hour TIMESTAMP NOT NULL,
    source VARCHAR NOT NULL, allocated_seconds DECIMAL(10, 3) NOT NULL
);
CREATE TABLE feeder_state (
    feeder VARCHAR NOT NULL, complete_until TIMESTAMP NOT NULL, state VARCHAR NOT NULL
);
"""
