"""Doubts about an hour, noted by the feeders, that advice looks at."""

# The card was cut into MIG instances.
FLAG_MIG = "mig"
# SM activity read 0 while kernels ran.
FLAG_STUCK_COUNTER = "stuck_counter"
