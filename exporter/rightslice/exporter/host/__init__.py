"""The edges of the exporter: the only places that call the machine. They know no metric."""
