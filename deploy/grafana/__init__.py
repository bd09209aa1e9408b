"""Grafana dashboards, written as code: `boards/` says what they show, `make dashboards` writes them as JSON."""
