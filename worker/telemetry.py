"""The process's Temporal runtime: its log, and SDK metrics and our own on one Prometheus endpoint."""

import logging

from temporalio.runtime import (
    LogForwardingConfig,
    LoggingConfig,
    PrometheusConfig,
    Runtime,
    TelemetryConfig,
    TelemetryFilter,
)

_CALL_SECONDS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600]


def build_runtime(metrics_address: str | None = None) -> Runtime:
    """A runtime whose own log lines go the way of this process's.

    With `metrics_address` (host:port) it serves `/metrics` there. Raises `ValueError` when that port is taken.
    """
    return Runtime(
        telemetry=TelemetryConfig(
            metrics=_metrics(metrics_address) if metrics_address else None,
            logging=LoggingConfig(
                filter=TelemetryFilter(core_level="WARN", other_level="ERROR"),
                forwarding=LogForwardingConfig(logger=logging.getLogger("temporalio.core")),
            ),
        )
    )


def _metrics(bind_address: str) -> PrometheusConfig:
    return PrometheusConfig(
        bind_address=bind_address,
        counters_total_suffix=True,
        unit_suffix=True,
        durations_as_seconds=True,
        histogram_bucket_overrides={"outlast_tool_call_duration": _CALL_SECONDS},
    )
