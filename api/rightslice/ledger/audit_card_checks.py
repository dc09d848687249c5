"""What must hold of cards, of what is on them, and of the sums of their days."""

from rightslice.ledger import tables
from rightslice.ledger.audit_check import ASK_AGAIN, CLOCK, DOUBTFUL, Check, broken

# A reading may stand for time on either side of its hour, at most its interval.
SLICE_TOLERANCE_SECONDS = 60


CARD_CHECKS = (
    Check(
        "held_longer_than_owned",
        "workload_hour",
        "a workload held a card for longer than the card was there",
        ASK_AGAIN,
        """
        SELECT concat(card.uuid, ' ', workload_hour.hour, ', ', pod, ' ',
            workload_hour.allocated_seconds, ' of ', owned_seconds)
        FROM workload_hour JOIN card_hour USING (card_id, hour, source)
        JOIN card USING (card_id) JOIN workload USING (workload_id)
        WHERE workload_hour.allocated_seconds > owned_seconds
        """,
    ),
    Check(
        "slices_larger_than_card",
        "slice_hour",
        "the slices of a card held more of it than there is",
        ASK_AGAIN,
        f"""
        SELECT concat(uuid, ' ', hour, ', ', held, ' unit seconds of ', there) FROM (
            SELECT card_id, hour, sum(units * slice_hour.allocated_seconds) AS held,
                max(card_units) * max(card_hour.owned_seconds) AS there,
                max(card_units) AS card_units
            FROM slice_hour JOIN slice USING (slice_id) JOIN card_hour USING (card_id, hour)
            GROUP BY card_id, hour
        ) JOIN card USING (card_id)
        WHERE held > there + {SLICE_TOLERANCE_SECONDS} * card_units
        """,
    ),
    Check(
        "seen_outside_of_hour",
        "card_hour",
        "the last reading of an hour is not in it",
        CLOCK,
        broken(
            tables.CARD_HOUR,
            "seen_until < hour OR seen_until > hour + INTERVAL 1 HOUR",
            seen_until="seen_until",
        ),
    ),
    Check(
        "missing_hours",
        "card_hour",
        "hours between two hours of a card are not there at all, which is less than unknown",
        "if the card was there, have them told: a wider --window reads them from Prometheus",
        """
        SELECT concat(uuid, ' ', strftime(hour, '%Y-%m-%d %H:%M'), ', ',
            date_diff('hour', hour, next) - 1, ' missing after it')
        FROM (
            SELECT card_id, hour, lead(hour) OVER (PARTITION BY card_id ORDER BY hour) AS next
            FROM card_hour
        ) JOIN card USING (card_id)
        WHERE date_diff('hour', hour, next) > 1
        """,
        DOUBTFUL,
    ),
    Check(
        "ahead_of_time",
        "feeder_state",
        "a feeder believes to be complete until a moment yet to come, and will read nothing before",
        CLOCK,
        "SELECT concat(feeder, ' ', complete_until) FROM feeder_state WHERE complete_until > $now",
    ),
    *(
        Check(
            "summed_twice",
            table,
            "a day is summed twice",
            "have an hour of that day told anew: it is summed again then",
            f"SELECT concat({keys.replace(', ', chr(44) + chr(39) + ' ' + chr(39) + chr(44))}) "
            f"FROM {table} GROUP BY {keys} HAVING count(*) > 1",
        )
        for table, keys in (
            ("rolled_day", "day"),
            ("card_day", "card_id, day"),
            ("workload_day", "card_id, workload_id, day"),
        )
    ),
    *(
        Check(
            "sum_of_no_day",
            table,
            "sums are of a day that is not marked as summed, and are never read",
            "have an hour of that day told anew: it is summed again then",
            f"SELECT DISTINCT day::DATE::VARCHAR FROM {table} ANTI JOIN rolled_day USING (day)",
        )
        for table in ("card_day", "workload_day")
    ),
)
