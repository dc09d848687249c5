"""From any other exporter's gauges to hours, as a mapping says."""
