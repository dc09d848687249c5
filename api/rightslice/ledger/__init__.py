"""Hourly facts in one DuckDB file: the one place that everything after the feeders reads."""
