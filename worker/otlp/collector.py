"""Protocol, address and resource attributes for the collector in the settings."""

import os
from collections.abc import Mapping
from importlib.metadata import version
from typing import Literal

from opentelemetry.util.re import parse_env_headers

from outlast.worker.settings import Settings

Process = Literal["api", "mcp", "worker"]


def signal_url(endpoint: str, signal: Literal["metrics", "traces"]) -> str:
    """Return the URL at which the collector at `endpoint` accepts a signal."""
    return f"{endpoint.rstrip('/')}/v1/{signal}"


def headers_of(settings: Settings) -> Mapping[str, str]:
    """The headers of every request to the collector."""
    given = settings.otlp_headers.get_secret_value() if settings.otlp_headers else ""
    return parse_env_headers(given, liberal=True)


def resource_of(process: Process) -> dict[str, str]:
    """Return the resource of this process. `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` add to it."""
    named = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": f"outlast-{process}"}
    instance = f"{os.uname().nodename}-{os.getpid()}"
    return {**named, "service.version": version("outlast"), "service.instance.id": instance}
