"""Whose workloads are, and how many replicas they have, from kube-state-metrics."""
