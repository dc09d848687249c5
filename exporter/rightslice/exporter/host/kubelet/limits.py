"""How long an answer of the kubelet may take, and how large it may be."""

# A lane takes a call for hung that has not come back after 5 s.
DEADLINE_SECONDS = 4.0
# gRPC's own limit of 4 MiB is less than a node with many pods tells.
LARGEST_ANSWER_BYTES = 64 * 1024 * 1024
