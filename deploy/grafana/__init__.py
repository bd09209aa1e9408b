"""Grafana dashboards as code: `boards/` describes them, `make dashboards` writes them as JSON."""
