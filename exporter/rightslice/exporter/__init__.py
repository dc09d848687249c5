"""The node exporter: samples the cards every second, renders on request."""
