"""From our exporter's series to hours."""
