"""Which counters of network ports are bytes, pauses, loss, congestion and errors of an hour.

The row of an RDMA port and that of its network device are told apart, for one's bytes pass the
other as well. Each count is one of signs, not of packets: a lost packet may show in several of
them. `LEFT_OUT` says what looks as if it belonged here and does not.
"""

from dataclasses import dataclass

from rightslice.contract import nic_metrics
from rightslice.contract.nic_metrics import NIC_COUNTERS
from rightslice.contract.spec import MetricSpec
from rightslice.feeders.ours.rules import How, Rule, Thing

# Two directions of 800 Gbit/s, several times over; no port sends more packets than that.
MOST_BYTES_PER_SECOND = 1e12
MOST_EVENTS_PER_SECOND = 1e10
LOSS, CONGESTION, ERROR, LINK_DOWN = (
    "loss_count",
    "congestion_count",
    "error_count",
    "link_down_count",
)
# The part of a pause that holds the whole link and no priority in particular.
WHOLE_LINK = "link"


@dataclass(frozen=True, slots=True)
class Sign:
    """A counter, by its name in the table of network cards, what its growth is a sign of, and why.

    Of signs of the same field and a `rank` the lowest that is told counts: they tell the same.
    """

    counter: str
    field: str
    why: str
    rank: int = 0


RDMA_SIGNS = (
    Sign("rdma_ack_timeouts_total", LOSS, "an answer did not come in time"),
    Sign("rdma_sequence_naks_received_total", LOSS, "the peer missed a packet of ours"),
    Sign("rdma_implied_naks_total", LOSS, "an answer before this one was missed"),
    Sign("rdma_missing_responses_total", LOSS, "an answer never came"),
    Sign("rdma_adaptive_retransmits_total", LOSS, "packets were sent again"),
    Sign("rdma_retransmitted_packets_total", LOSS, "packets were sent again (EFA)"),
    Sign("rdma_iwarp_retransmitted_segments_total", LOSS, "segments were sent again (iWARP)"),
    Sign("rdma_receive_discards_total", LOSS, "packets were dropped on arrival"),
    Sign("rdma_transmit_discards_total", LOSS, "packets were dropped before they left"),
    Sign("rdma_ecn_marked_packets_received_total", CONGESTION, "a switch marked the packet"),
    Sign("rdma_cnp_received_total", CONGESTION, "a peer asked this sender to slow down"),
    Sign("rdma_cnp_handled_total", CONGESTION, "a peer asked, and this sender slowed down"),
    Sign("rdma_cnp_ignored_total", CONGESTION, "a peer asked, and this sender did not"),
    Sign("rdma_retries_exceeded_total", ERROR, "a connection was given up"),
    Sign("rdma_work_errors_total", ERROR, "a work request failed"),
    Sign("rdma_fatal_errors_total", ERROR, "the device says so"),
    Sign("rdma_unresponsive_remote_events_total", ERROR, "a peer did not answer any more (EFA)"),
    Sign("rdma_receive_errors_total", ERROR, "packets arrived broken"),
    Sign("rdma_receive_remote_physical_errors_total", ERROR, "packets were broken before"),
    Sign("rdma_receive_icrc_errors_total", ERROR, "packets arrived broken (RoCE)"),
    Sign("rdma_receive_constraint_errors_total", ERROR, "packets of a foreign partition"),
    Sign("rdma_transmit_constraint_errors_total", ERROR, "packets for a foreign partition"),
    Sign("rdma_transmit_errors_total", ERROR, "packets could not be sent"),
    Sign("rdma_iwarp_receive_protocol_errors_total", ERROR, "segments that make no sense"),
    Sign("rdma_symbol_errors_total", ERROR, "the line garbles"),
    Sign("rdma_link_error_recoveries_total", ERROR, "the link had to be trained anew"),
    Sign("rdma_local_link_integrity_errors_total", ERROR, "the line garbles beyond its limit"),
    Sign("rdma_excessive_buffer_overrun_errors_total", ERROR, "credits did not hold the peer"),
    Sign("rdma_link_downed_total", LINK_DOWN, "the link failed and could not be trained anew"),
)
NETDEV_SIGNS = (
    Sign("rdma_nic_receive_discards_total", LOSS, "no room in the port's buffer"),
    Sign("rdma_nic_transmit_discards_total", LOSS, "packets waited too long to leave"),
    Sign("rdma_nic_pcie_buffer_overflow_packets_total", LOSS, "PCIe did not take them in time"),
    Sign("pfc_priority_receive_buffer_discards_total", LOSS, "no room in the host's buffer"),
    Sign("pfc_priority_receive_congestion_discards_total", LOSS, "the host was congested"),
    Sign("pfc_priority_receive_ecn_marked_total", CONGESTION, "this adapter marked: slow host"),
    Sign("rdma_nic_receive_buffer_high_total", CONGESTION, "the port's buffer ran nearly full"),
    Sign("pfc_storm_warnings_total", CONGESTION, "this adapter held its peer for long"),
    Sign("pfc_storm_errors_total", ERROR, "this adapter gave up holding its peer"),
    Sign("rdma_nic_receive_errors_total", ERROR, "packets arrived broken"),
    Sign("rdma_nic_receive_crc_errors_total", ERROR, "packets arrived broken"),
    Sign(
        "rdma_nic_receive_oversize_total", ERROR, "the peer's packets are longer than ours may be"
    ),
    Sign("rdma_nic_transmit_errors_total", ERROR, "packets could not be sent"),
    Sign("rdma_nic_transmit_timeouts_total", ERROR, "a queue stood still"),
    Sign("rdma_nic_symbol_errors_total", ERROR, "the line garbles"),
    Sign("rdma_nic_pcs_symbol_errors_total", ERROR, "the line garbles beyond correction"),
    Sign("rdma_nic_fec_uncorrectable_blocks_total", ERROR, "the line garbles beyond correction"),
    Sign("rdma_nic_mac_faults_total", ERROR, "one end sees a broken link"),
    Sign("rdma_nic_receive_carrier_errors_total", ERROR, "the carrier was lost"),
    Sign("rdma_nic_link_down_events_total", LINK_DOWN, "the firmware saw the link go down"),
)
# Counter, and why it is no sign of any of this.
LEFT_OUT = (
    ("rdma_out_of_sequence_packets_total", "adaptive routing reorders without any loss"),
    ("rdma_duplicate_requests_total", "the peer counts that it sent again"),
    ("rdma_adaptive_retransmit_timeouts_total", "what followed is counted as sent again"),
    ("rdma_rnr_naks_received_total", "the peer's program had no room; nothing was lost"),
    ("rdma_out_of_buffer_total", "this host's program had no room; the network lost nothing"),
    ("rdma_cnp_sent_total", "the marked packets that made us send them are counted"),
    ("rdma_transmit_wait_ticks_total", "a tick's length differs between devices"),
    ("rdma_vl15_dropped_total", "management packets only"),
    ("pfc_priority_receive_discards_total", "they are among those of the port"),
    ("rdma_nic_cos_receive_discards_total", "they are among those of the port"),
    ("rdma_nic_netdev_out_of_buffer_total", "this host's program had no room"),
    ("rdma_nic_receive_steering_missed_total", "no rule wanted the packet"),
    ("rdma_nic_fec_corrected_blocks_total", "that is what the correction is for"),
    ("rdma_nic_fec_bit_corrections_total", "that is what the correction is for"),
    ("rdma_nic_raw_lane_errors_total", "before the correction, every link has them"),
)


def _register(
    thing: Thing,
    spec: MetricSpec,
    field: str,
    most_per_second: float,
    part: str = "",
    rank: int = 0,
) -> Rule:
    return Rule(spec, thing, field, How.REGISTER, most_per_second, part=part, rank=rank)


def _bytes(thing: Thing, spec: MetricSpec, field: str, rank: int = 0) -> Rule:
    return _register(thing, spec, field, MOST_BYTES_PER_SECOND, rank=rank)


def _pause(name: str, field: str, part: str) -> Rule:
    return _register(Thing.NETDEV, NIC_COUNTERS[name], field, 1.0, part)


def _signs(thing: Thing, signs: tuple[Sign, ...]) -> tuple[Rule, ...]:
    return tuple(
        _register(
            thing, NIC_COUNTERS[sign.counter], sign.field, MOST_EVENTS_PER_SECOND, rank=sign.rank
        )
        for sign in signs
    )


PORT_RULES = (
    _bytes(Thing.RDMA_PORT, NIC_COUNTERS["rdma_receive_bytes_total"], "receive_bytes"),
    _bytes(Thing.RDMA_PORT, NIC_COUNTERS["rdma_transmit_bytes_total"], "transmit_bytes"),
    *_signs(Thing.RDMA_PORT, RDMA_SIGNS),
    # All that passed the wire; else what passed the kernel, without RDMA's.
    _bytes(Thing.NETDEV, NIC_COUNTERS["rdma_nic_receive_bytes_total"], "receive_bytes"),
    _bytes(Thing.NETDEV, nic_metrics.RDMA_NIC_NETDEV_RECEIVE_BYTES_TOTAL, "receive_bytes", 1),
    _bytes(Thing.NETDEV, NIC_COUNTERS["rdma_nic_transmit_bytes_total"], "transmit_bytes"),
    _bytes(Thing.NETDEV, nic_metrics.RDMA_NIC_NETDEV_TRANSMIT_BYTES_TOTAL, "transmit_bytes", 1),
    _pause("pfc_pause_received_seconds_total", "pause_received_seconds", "priority"),
    _pause("pfc_pause_transmitted_seconds_total", "pause_transmitted_seconds", "priority"),
    _pause("pfc_global_pause_received_seconds_total", "pause_received_seconds", WHOLE_LINK),
    _pause("pfc_global_pause_transmitted_seconds_total", "pause_transmitted_seconds", WHOLE_LINK),
    Rule(
        nic_metrics.PFC_PAUSE_RECEIVED_PEAK_RATIO,
        Thing.NETDEV,
        "pause_received_peak_ratio",
        How.PEAK,
    ),
    Rule(
        nic_metrics.PFC_PAUSE_TRANSMITTED_PEAK_RATIO,
        Thing.NETDEV,
        "pause_transmitted_peak_ratio",
        How.PEAK,
    ),
    *_signs(Thing.NETDEV, NETDEV_SIGNS),
    # The kernel's count of the same, where the firmware keeps none.
    _register(
        Thing.NETDEV,
        nic_metrics.RDMA_NIC_CARRIER_DOWN_TOTAL,
        LINK_DOWN,
        MOST_EVENTS_PER_SECOND,
        rank=1,
    ),
)
