"""The service's edge: command line, HTTP API and page."""
