"""The network side of a node: its RDMA devices, network devices, switches and pause frames."""
