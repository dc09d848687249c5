"""The feeder that reads a Prometheus, or a server with its HTTP API."""
