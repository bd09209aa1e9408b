"""The process's Temporal runtime: its log lines, and the metrics of the SDK and our own on one Prometheus endpoint."""

import logging
import socket
from dataclasses import dataclass
from datetime import datetime

from temporalio.runtime import (
    LogForwardingConfig,
    LoggingConfig,
    PrometheusConfig,
    Runtime,
    TelemetryConfig,
    TelemetryFilter,
)

log = logging.getLogger("outlast.worker")

_CALL_SECONDS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600]
_LONG_DURATIONS = (
    "outlast_tool_call_duration",
    "outlast_turn_duration",
    "outlast_model_call_duration",
    "outlast_mcp_call_duration",
    "temporal_activity_succeed_endtoend_latency",
)
"""Buckets for durations of minutes and hours; the SDK's have nothing between 10 and 100 seconds."""
_FREE_PORT_ATTEMPTS = 5
"""Another process may take a free port between its choice and its use."""


@dataclass(frozen=True)
class Telemetry:
    """A runtime, and where its metrics are: None when it serves none."""

    runtime: Runtime
    metrics_url: str | None


def build_runtime(metrics_address: str | None = None) -> Runtime:
    """A runtime whose log lines go where this process's go.

    With `metrics_address` (host:port) it serves `/metrics` there. Raises `ValueError` when that port is taken.
    """
    return Runtime(
        telemetry=TelemetryConfig(
            metrics=_prometheus(metrics_address) if metrics_address else None,
            logging=LoggingConfig(
                filter=TelemetryFilter(core_level="WARN", other_level="ERROR"),
                forwarding=LogForwardingConfig(logger=logging.getLogger("temporalio.core")),
            ),
        )
    )


def start_telemetry(host: str, port: int) -> Telemetry:
    """A runtime with its metrics on `host` and `port`; port 0 means any free one.

    Metrics never keep a worker from working: when the port is taken they are served on a free one, when `host` has none
    they are not served at all. A warning then says why, and where they are.
    """
    if port:
        try:
            return _serving_on(host, port)
        except ValueError as error:
            reason = str(error)
    else:
        reason = ""
    telemetry = _on_a_free_port(host)
    if telemetry is None:
        reason = reason or f"{host} has no free port"
        log.warning(
            "Metrics are not served: %s. Set OUTLAST_WORKER_METRICS_HOST to an address of this machine.", reason
        )
        return Telemetry(build_runtime(), None)
    if reason:
        log.warning(
            "Metrics cannot be served on %s:%s (%s). They are on %s instead; set OUTLAST_WORKER_METRICS_PORT to a free "
            "port, or to 0 for any free one.",
            host,
            port,
            reason,
            telemetry.metrics_url,
        )
    return telemetry


def export_certificate_end(runtime: Runtime, end: datetime | None) -> None:
    """Show in the metrics of this process when its certificate for Temporal ends, if it has one."""
    if end is not None:
        gauge = runtime.metric_meter.create_gauge(
            "outlast_expiry_timestamp_seconds", "When the next certificate or key of a kind ends, as Unix time."
        )
        gauge.set(round(end.timestamp()), {"kind": "temporal_certificate"})


def _serving_on(host: str, port: int) -> Telemetry:
    return Telemetry(build_runtime(f"{host}:{port}"), f"http://{host}:{port}/metrics")


def _on_a_free_port(host: str) -> Telemetry | None:
    for _ in range(_FREE_PORT_ATTEMPTS):
        try:
            return _serving_on(host, _free_port(host))
        except (OSError, ValueError):
            continue
    return None


def _free_port(host: str) -> int:
    """A port that nobody has now: the SDK does not say which one it got when it is asked for port 0."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((host, 0))
        return probe.getsockname()[1]


def _prometheus(bind_address: str) -> PrometheusConfig:
    return PrometheusConfig(
        bind_address=bind_address,
        counters_total_suffix=True,
        unit_suffix=True,
        durations_as_seconds=True,
        histogram_bucket_overrides=dict.fromkeys(_LONG_DURATIONS, _CALL_SECONDS),
    )
