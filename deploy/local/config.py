"""Configuration of a stack, and the external services that the environment names, so that it does not start them."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Literal, Self
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field
from temporalio.envconfig import ClientConfigProfile

from outlast.deploy.local.errors import StackError
from outlast.paths import default_data_dir, docs_dir, is_tools_folder
from outlast.proxies import exempt_loopback

Port = int | None
"""None: a default port, or another one if it is taken. A number: this port or an error. 0: any free port."""
DEFAULT_RETENTION_DAYS = 30


class Component(StrEnum):
    """Process of a stack."""

    TEMPORAL = "temporal"
    SANDBOX = "sandbox"
    WORKER = "worker"
    API = "api"


class StackConfig(BaseModel):
    """Configuration of a stack. Its processes inherit `environment`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    data_dir: Path = Field(default_factory=default_data_dir)
    api_host: str = "127.0.0.1"
    api_port: Port = Field(default=None, ge=0, le=65535)
    temporal_port: Port = Field(default=None, ge=0, le=65535)
    temporal_ui_port: Port = Field(default=None, ge=0, le=65535)
    temporal_http_port: Port = Field(default=None, ge=0, le=65535)
    temporal_metrics_port: Port = Field(default=None, ge=0, le=65535)
    sandbox_port: Port = Field(default=None, ge=0, le=65535)
    worker_metrics_port: Port = Field(default=None, ge=0, le=65535)
    actors: tuple[Path, ...] = ()
    """Folders with the user's Actors, for the sandbox."""
    retention_days: int = Field(default=DEFAULT_RETENTION_DAYS, ge=1, le=3650)
    """Retention of closed workflows in the embedded Temporal server; the default is the lifetime of sessions."""
    log_format: Literal["text", "json"] = "text"
    tools_from: str | None = None
    """Python modules with further tools for worker and API, comma-separated."""
    mcp_servers: Path | None = None
    """File with MCP servers whose tools worker and API offer."""
    reload_tools: bool = False
    """Replace worker and API when the files of these modules change."""
    site_dir: Path = Field(default_factory=docs_dir)
    environment: Mapping[str, str] = Field(default_factory=lambda: dict(os.environ), repr=False)
    """May hold credentials: `APIFY_TOKEN` means the real platform, `TEMPORAL_ADDRESS` (or a profile) a real cluster."""
    instance_id: str = Field(default_factory=lambda: uuid4().hex)
    """Id of this start of the stack; its API returns it on `/healthz` and `/readyz`."""
    components: frozenset[Component] = frozenset(Component)
    """A subset is for tests, which run or replace the other parts."""
    commands: Mapping[Component, tuple[str, ...]] = Field(default_factory=dict[Component, tuple[str, ...]])
    """Commands to start instead of the usual ones, for tests."""
    ready_timeout_seconds: float = Field(default=60.0, gt=0)
    begin_anew: bool = False
    """Move an incomplete data directory aside instead of refusing it."""

    @property
    def tool_modules(self) -> tuple[str, ...]:
        """The user's modules of tools: names, or absolute paths of files and folders."""
        given = self.tools_from or self.environment.get("OUTLAST_TOOLS_FROM", "")
        names = (name.strip() for name in given.split(",") if name.strip())
        return tuple(
            str(Path(name).absolute()) if name.endswith(".py") or is_tools_folder(name) else name for name in names
        )

    @property
    def mcp_servers_file(self) -> Path | None:
        """Absolute path of the file with MCP servers."""
        given = self.mcp_servers or self.environment.get("OUTLAST_MCP_SERVERS_FILE")
        return Path(given).absolute() if given else None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None, **given: object) -> Self:
        """Read the `OUTLAST_` settings of a stack; values that are `given` (flags) and not None take precedence.

        Raises pydantic's `ValidationError` for an invalid value.
        """
        environment = dict(os.environ if environment is None else environment)
        exempt_loopback(environment)
        ports = (name for name in cls.model_fields if name.endswith("_port"))
        names = ("data_dir", "api_host", "log_format", "retention_days", *ports)
        settings = {name: value for name in names if (value := environment.get(f"OUTLAST_{name.upper()}"))}
        flags = {name: value for name, value in given.items() if value is not None}
        return cls.model_validate({**settings, **flags, "environment": environment})


APIFY_API_BASE_URL = "https://api.apify.com"


@dataclass(frozen=True, slots=True)
class Outside:
    """External services; None for a service that the stack has to start."""

    temporal_address: str | None
    temporal_namespace: str
    apify_api_base_url: str | None

    def missing_of(self, components: frozenset[Component]) -> frozenset[Component]:
        """Return the components that the stack has to start because no external service replaces them."""
        existing = {Component.TEMPORAL} if self.temporal_address else set[Component]()
        existing |= {Component.SANDBOX} if self.apify_api_base_url else set()
        return components - existing


def look_outside(environment: Mapping[str, str]) -> Outside:
    """Read Apify's and Temporal's own variables, and Temporal's configuration file.

    Raises `StackError` when the Temporal configuration cannot be read.
    """
    try:
        profile = ClientConfigProfile.load(override_env_vars=dict(environment))
    except RuntimeError as error:
        raise StackError(f"The Temporal client configuration cannot be read: {error}") from error
    base_url = environment.get("APIFY_API_BASE_URL") or APIFY_API_BASE_URL
    has_token = bool(environment.get("APIFY_TOKEN") or environment.get("APIFY_TOKEN_FILE"))
    return Outside(
        temporal_address=profile.address,
        temporal_namespace=profile.namespace or "default",
        apify_api_base_url=base_url if has_token else None,
    )
