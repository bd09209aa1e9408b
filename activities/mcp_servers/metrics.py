"""Metrics of this worker's sessions with MCP servers. Calls are counted by their outcome in `workflows.metrics`."""

from collections import Counter
from datetime import timedelta
from typing import Literal

from temporalio.common import MetricMeter

SessionEvent = Literal["opened", "failed", "closed", "lost"]


class ServerMetrics:
    """Counts what happens to sessions. A server's name is a label: there are as many as the file has."""

    def __init__(self, meter: MetricMeter) -> None:
        """Use the meter of the worker's runtime: that of an activity would add the queue of its session."""
        self._open = Counter[str]()
        self._sessions = meter.create_counter("outlast_mcp_sessions", "Events of sessions with MCP servers.")
        self._open_gauge = meter.create_gauge("outlast_mcp_open_sessions", "Open sessions with MCP servers.")
        self._lists = meter.create_counter("outlast_mcp_lists", "Lists of tools requested from MCP servers.")
        self._durations = meter.create_histogram_timedelta(
            "outlast_mcp_call_duration", "Time from sending a call to an MCP server until its answer.", "duration"
        )

    def session(self, server: str, event: SessionEvent) -> None:
        """Count an event: `failed` was not opened; `lost` ended by itself, such as a process that crashed."""
        self._sessions.add(1, {"server": server, "event": event})
        if event != "failed":
            self._open[server] += 1 if event == "opened" else -1
            self._open_gauge.set(self._open[server], {"server": server})

    def listed(self, server: str, *, succeeded: bool) -> None:
        """Count an attempt to list the tools of a server."""
        self._lists.add(1, {"server": server, "outcome": "listed" if succeeded else "failed"})

    def answered(self, server: str, seconds: float) -> None:
        """Record how long a server took to answer a call."""
        self._durations.record(timedelta(seconds=seconds), {"server": server})
