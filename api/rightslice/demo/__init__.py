"""The demo: a simulated node and the service in one process. Nothing imports it."""
