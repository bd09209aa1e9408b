"""Where the parts of a stack answer."""

from pydantic import BaseModel, ConfigDict


class StackAddresses(BaseModel):
    """The addresses of one stack; None for a part that it does not run and does not know."""

    model_config = ConfigDict(frozen=True)

    api_url: str | None = None
    temporal_address: str | None = None
    temporal_namespace: str = "default"
    temporal_ui_url: str | None = None
    temporal_http_url: str | None = None
    temporal_metrics_url: str | None = None
    apify_api_base_url: str | None = None
    sandbox_url: str | None = None
    docs_site_url: str | None = None
    metrics_url: str | None = None
    """The worker's Prometheus metrics. The API has its own at `/metrics`."""


def reachable_host(host: str) -> str:
    """Return the host to call for a server that listens on `host`, which may be a wildcard."""
    loopback = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)  # noqa: S104 (compared, not bound)
    return f"[{loopback}]" if ":" in loopback else loopback


def http_url(host: str, port: int) -> str:
    """Return the address of a server on this host and port, without a trailing slash."""
    return f"http://{reachable_host(host)}:{port}"
