"""The Temporal plugins of a process that traces: Temporal's own, which carries traces along, and our spans."""

from collections.abc import Sequence

from temporalio.client import Plugin
from temporalio.plugin import SimplePlugin

from outlast.worker.settings import Settings


def tracing_plugins(settings: Settings) -> Sequence[Plugin]:
    """The plugins for clients and workers; none while there is no collector."""
    if settings.otlp_endpoint is None:
        return ()
    from temporalio.contrib.opentelemetry import OpenTelemetryPlugin  # noqa: PLC0415  # loads OpenTelemetry's SDK

    from outlast.worker.otlp.call_spans import CallSpans  # noqa: PLC0415

    # Temporal's own spans would have the messages of exceptions in them, and three spans for each activity.
    spans: SimplePlugin = SimplePlugin("outlast-spans", interceptors=[CallSpans()])  # pyright: ignore[reportUnknownMemberType]  # the SDK leaves a type open
    return (OpenTelemetryPlugin(add_temporal_spans=False), spans)
