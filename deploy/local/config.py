"""The configuration of a stack."""

import os
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Literal, Self
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field

from outlast.paths import default_data_dir, docs_dir

Port = int | None
"""None: a default that gives way when it is taken. A number: this port or an error. 0: any free one."""
DEFAULT_RETENTION_DAYS = 30


class Component(StrEnum):
    """The processes of a stack."""

    TEMPORAL = "temporal"
    SANDBOX = "sandbox"
    WORKER = "worker"
    API = "api"


class StackConfig(BaseModel):
    """The whole configuration of a stack. `environment` is what its processes inherit."""

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
    """Folders with Actors of the developer's own, for the sandbox."""
    retention_days: int = Field(default=DEFAULT_RETENTION_DAYS, ge=1, le=3650)
    """How long the embedded Temporal server keeps closed workflows: as long as sessions live, by default."""
    log_format: Literal["text", "json"] = "text"
    tools_from: str | None = None
    """Python modules whose tools worker and API offer too, comma-separated."""
    reload_tools: bool = False
    """Whether worker and API are replaced when the files of these modules change."""
    site_dir: Path = Field(default_factory=docs_dir)
    environment: Mapping[str, str] = Field(default_factory=lambda: dict(os.environ), repr=False)
    """May hold credentials: `APIFY_TOKEN` means the real platform, `TEMPORAL_ADDRESS` (or a profile) a real cluster."""
    instance_id: str = Field(default_factory=lambda: uuid4().hex)
    """Names this start of the stack; its API answers with it on `/healthz` and `/readyz`."""
    components: frozenset[Component] = frozenset(Component)
    """A subset is for tests, which then run or replace the other parts themselves."""
    commands: Mapping[Component, tuple[str, ...]] = Field(default_factory=dict[Component, tuple[str, ...]])
    """Commands to start instead of the usual ones, for tests."""
    ready_timeout_seconds: float = Field(default=60.0, gt=0)
    begin_anew: bool = False
    """Whether a data directory that is not whole is moved aside, instead of refused."""

    @property
    def tool_modules(self) -> tuple[str, ...]:
        """The user's modules of tools: names, or absolute paths of files."""
        given = self.tools_from or self.environment.get("OUTLAST_TOOLS_FROM", "")
        names = (name.strip() for name in given.split(",") if name.strip())
        return tuple(str(Path(name).absolute()) if name.endswith(".py") else name for name in names)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None, **given: object) -> Self:
        """Read the `OUTLAST_` settings that concern a stack; what is `given` (flags) and not None wins.

        Raises pydantic's `ValidationError` for a value that makes no sense.
        """
        environment = dict(os.environ if environment is None else environment)
        names = [
            "data_dir",
            "api_host",
            "log_format",
            "retention_days",
            *(name for name in cls.model_fields if name.endswith("_port")),
        ]
        read = {name: environment.get(f"OUTLAST_{name.upper()}") or None for name in names}
        chosen = {**read, **{name: value for name, value in given.items() if value is not None}}
        settings = {name: value for name, value in chosen.items() if value is not None}
        return cls.model_validate({**settings, "environment": environment})
