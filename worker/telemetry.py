"""The process's Temporal runtime: SDK metrics and our own, on one Prometheus endpoint."""

from temporalio.runtime import LoggingConfig, PrometheusConfig, Runtime, TelemetryConfig, TelemetryFilter

_CALL_SECONDS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600]


def build_runtime(bind_address: str) -> Runtime:
    """A runtime that serves `/metrics` at `bind_address` (host:port). Raises `ValueError` when the port is taken."""
    return Runtime(
        telemetry=TelemetryConfig(
            metrics=PrometheusConfig(
                bind_address=bind_address,
                counters_total_suffix=True,
                unit_suffix=True,
                durations_as_seconds=True,
                histogram_bucket_overrides={"outlast_tool_call_duration": _CALL_SECONDS},
            ),
            logging=LoggingConfig(filter=TelemetryFilter(core_level="WARN", other_level="ERROR")),
        )
    )
