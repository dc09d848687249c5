"""Doubts about an hour, noted by the feeders, that advice looks at."""

# The card was cut into MIG instances.
FLAG_MIG = "mig"
# SM activity read 0 while kernels ran.
FLAG_STUCK_COUNTER = "stuck_counter"
# The target could not be read for a while; its counters tell how much there was, not when.
FLAG_BRIDGED = "bridged"
# The estimated wait of a workload may be far below the truth.
FLAG_WAIT_MAY_BE_LOW = "wait_may_be_low"
