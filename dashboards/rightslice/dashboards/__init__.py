"""Grafana dashboards as code: built with grafanalib, the JSON is committed."""
