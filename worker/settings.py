"""Settings of the worker, and of every process. Their prefix is `OUTLAST_`; Apify's variables keep their names."""

import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Literal

from pydantic import AliasChoices, Field, SecretStr, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticKnownError
from pydantic_settings import BaseSettings, SettingsConfigDict
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.worker import WorkerDeploymentConfig

from outlast.activities.bounds import MAX_SECONDS
from outlast.activities.llm.providers.models import ModelLimits, Price
from outlast.activities.runs.contracts import RestoredInterval
from outlast.activities.secrets import read_secret_files
from outlast.activities.stuck_tasks.contracts import StuckLimits
from outlast.paths import DEFAULT_RESERVE_MBYTES, default_data_dir
from outlast.worker.log_lines import TaskLines
from outlast.workflows.contracts.queues import QUEUES

APIFY_API = "https://api.apify.com"
APIFY_CONSOLE = "https://console.apify.com"
_MAX_NUMBER = 2**53 - 1


class Settings(BaseSettings):
    """Read from the environment. The connection to Temporal has its own variables: TEMPORAL_ADDRESS and others."""

    model_config = SettingsConfigDict(env_prefix="OUTLAST_", extra="ignore", populate_by_name=True)

    data_dir: Path = Field(default_factory=default_data_dir, description="Where the embedded stack keeps its state.")
    log_format: Literal["text", "json"] = Field(default="text", description="Form of the log lines on standard error.")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Minimum level that is logged."
    )
    log_task_share: float = Field(
        default=1,
        ge=0,
        le=1,
        description="Share of tasks whose events are logged; the ends of failed and slow tasks always are.",
    )
    slow_task_seconds: float = Field(
        default=300,
        ge=0,
        description="Duration from which the end of a task is logged as a warning; 0 logs no warnings.",
    )
    ready_file: Path | None = Field(
        default=None,
        description="File that the process writes when it is ready (pid, version and addresses, as JSON) and removes "
        "when it stops. Each process needs its own.",
    )
    otlp_endpoint: str | None = Field(
        default=None,
        validation_alias=AliasChoices("OUTLAST_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT", "otlp_endpoint"),
        description="Root of an OpenTelemetry collector that accepts OTLP over HTTP. If set, traces are sent to it.",
    )
    otlp_headers: SecretStr | None = Field(
        default=None,
        validation_alias=AliasChoices("OUTLAST_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS", "otlp_headers"),
        description="Headers for the collector, `name=value`, comma-separated.",
    )
    otlp_metrics: bool = Field(default=False, description="Whether metrics are also sent to that collector.")
    seal_keys: SecretStr | None = Field(
        default=None,
        description="Keys that encrypt secrets, `KEYID:base64 of 32 bytes`, comma-separated, newest first.",
    )
    seal_keys_file: Path | None = Field(default=None, description="File with one such key per line.")
    encryption: Literal["off", "on", "read"] = Field(
        default="off",
        description="Whether histories and stored outputs are encrypted; the same for worker and API. `read` decrypts "
        "existing data and encrypts no new data.",
    )
    apify_token: SecretStr | None = Field(
        default=None,
        validation_alias=AliasChoices("APIFY_TOKEN", "apify_token"),
        description="Apify token that pays for callers without their own.",
    )
    apify_api_base_url: str = Field(
        default=APIFY_API,
        validation_alias=AliasChoices("APIFY_API_BASE_URL", "apify_api_base_url"),
        description="Root of the Apify API, without /v2.",
    )
    tools_from: str = Field(
        default="",
        description="Python modules with additional tools, by name, file or folder, comma-separated; "
        "`entry-points` for those of installed packages. The same for worker and API.",
    )
    mcp_servers_file: Path | None = Field(
        default=None,
        description="File with MCP servers whose tools are offered, as MCP clients have it; the same for worker and "
        "API.",
    )
    store_url: str | None = Field(
        default=None,
        description="Where outputs are stored: `s3://bucket/prefix`, `gs://…`, `az://…`, or a folder; the same for "
        "worker and API. Without it, `outputs` in the data directory.",
    )
    disk_reserve_mbytes: int = Field(
        default=DEFAULT_RESERVE_MBYTES,
        ge=0,
        description="Free space, in megabytes, that the disks of the data directory, the outputs and the audit log "
        "must have for the API to be ready; 0 disables the check.",
    )
    allow_private_addresses: bool = Field(
        default=False,
        description="Whether get-html-skeleton and webhooks may use addresses in private networks and loopback; the "
        "same for worker and API.",
    )
    proxy_resolves: bool = Field(
        default=False,
        description="Whether the proxy of the environment gets names of pages and webhooks, not checked addresses.",
    )
    model_prices: dict[str, Price] = Field(
        default={},
        description="US dollars per million tokens, as JSON by `provider/model`; the same for worker and API.",
    )
    model_limits: dict[str, ModelLimits] = Field(
        default={},
        description="Models that Outlast does not know, with their context windows and output limits in tokens, as "
        "JSON by "
        "`provider/model` or `provider/start*`; the same for worker and API.",
    )
    skills_dir: Path | None = Field(
        default=None, description="Folder of skills, `NAME/SKILL.md`; the same for worker and API."
    )
    workspace_dir: Path | None = Field(
        default=None, description="Folder below which every conversation has its own workspace."
    )
    enable_read: bool = Field(
        default=False, description="Whether models may read files of their workspace; the same for worker and API."
    )
    enable_bash: bool = Field(
        default=False, description="Whether models may run commands in their workspace; the same for worker and API."
    )
    console_url: str | None = Field(default=None, description="Root of the web console that shows runs.")
    temporal_ui_url: str | None = Field(default=None, description="Root of the Temporal UI, for links to workflows.")

    @model_validator(mode="before")
    @classmethod
    def _with_secret_files(cls, given: Mapping[str, object]) -> Mapping[str, object]:
        """Add the secrets that are read from files. Direct values win: by place, or as the first alias."""
        return {**read_secret_files(cls, os.environ), **given}

    @field_validator("*")
    @classmethod
    def _within_bounds(cls, value: object, info: ValidationInfo) -> object:
        """A number is finite, and one of seconds no longer than 30 years: durations become dates."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return value
        most = MAX_SECONDS if (info.field_name or "").endswith("_seconds") else _MAX_NUMBER
        if not value <= most:
            raise PydanticKnownError("less_than_equal", {"le": most})
        return value

    @field_validator("otlp_endpoint")
    @classmethod
    def _require_web_address(cls, endpoint: str | None) -> str | None:
        if endpoint and not endpoint.startswith(("http://", "https://")):
            raise ValueError("is the address of an OTLP/HTTP receiver, such as http://127.0.0.1:4318")
        return endpoint or None

    @field_validator("mcp_servers_file", mode="before")
    @classmethod
    def _empty_is_none(cls, file: object) -> object:
        return file or None

    @field_validator("otlp_metrics")
    @classmethod
    def _require_collector(cls, enabled: bool, info: ValidationInfo) -> bool:
        if enabled and info.data.get("otlp_endpoint") is None:
            raise ValueError("needs OUTLAST_OTLP_ENDPOINT")
        return enabled

    @field_validator("enable_read", "enable_bash")
    @classmethod
    def _require_workspace(cls, enabled: bool, info: ValidationInfo) -> bool:
        if enabled and info.data.get("workspace_dir") is None:
            raise ValueError("needs OUTLAST_WORKSPACE_DIR")
        return enabled

    @property
    def task_lines(self) -> TaskLines:
        """Lines about tasks that are logged."""
        return TaskLines(share=self.log_task_share, slow_seconds=self.slow_task_seconds)

    @property
    def configured_tools(self) -> tuple[str, ...]:
        """Names of the tools that these settings enable."""
        skills = ("Skill", "LoadSkillSupporting") if self.skills_dir is not None else ()
        workspace = (("Read", self.enable_read), ("Bash", self.enable_bash))
        return (*skills, *(name for name, enabled in workspace if enabled))

    @property
    def tool_modules(self) -> tuple[str, ...]:
        """`tools_from` as a tuple."""
        return tuple(name.strip() for name in self.tools_from.split(",") if name.strip())

    @property
    def console(self) -> str | None:
        """Root of the web console that shows runs: the configured one, else Apify's for Apify's platform."""
        is_apify = self.apify_api_base_url.rstrip("/") == APIFY_API
        return self.console_url or (APIFY_CONSOLE if is_apify else None)


def settings_errors(error: ValidationError) -> str:
    """The errors in the settings, in one line that names the variables but not their values."""
    found = error.errors(include_input=False, include_url=False, include_context=False)
    return "; ".join(f"{_variable(entry['loc'])}{entry['msg']}" for entry in found)


def _variable(location: tuple[int | str, ...]) -> str:
    """The variable that an error is about, and a colon; nothing for one that names its variable by itself."""
    if not location:
        return ""
    name = str(location[0])
    return f"{name}: " if name.isupper() else f"OUTLAST_{name.upper()}: "


class WorkerSettings(Settings):
    """Settings of the worker process."""

    worker_metrics_port: int = Field(
        default=9464,
        ge=0,
        le=65535,
        description="Port of the worker's /metrics; 0 for any free one. If it is in use, a free one is used.",
    )
    worker_metrics_host: str = Field(default="127.0.0.1", description="Address that the worker's /metrics listens on.")
    queues: str = Field(
        default=",".join(QUEUES),
        description="Which task queues this worker serves, comma-separated; together the workers must serve all.",
    )
    build_id: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$",
        description="Version of this worker in Temporal's worker versioning. It gets work of its version only, new "
        "work once the version is current. Without it, workers are not versioned.",
    )
    deployment_name: str = Field(
        default="outlast",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$",
        description="Name of the worker deployment that the build ids belong to.",
    )
    run_slots: int = Field(
        default=10_000, ge=1, description="Maximum number of concurrent runs that one worker follows."
    )
    tool_slots: int = Field(
        default=200, ge=1, description="Maximum number of concurrent short activities of one worker."
    )
    cached_workflows: int = Field(
        default=5_000,
        ge=2,
        description="Open workflows that one worker keeps in memory. For others, each step reads the whole history.",
    )
    function_slots: int = Field(
        default=200, ge=1, description="Maximum number of concurrent plain functions of tools of one worker."
    )
    output_slots: int | None = Field(
        default=None,
        ge=1,
        description="Maximum number of outputs that one worker stores or restores concurrently. Default: one per "
        "processor.",
    )
    sweep_interval_seconds: int = Field(
        default=900, ge=0, description="How often the output store is swept; 0 disables it."
    )
    sweep_grace_seconds: int = Field(
        default=3_600, ge=0, description="Objects younger than this are never removed as unreferenced."
    )
    reservation_check_seconds: float = Field(
        default=900,
        ge=1,
        description="Age at which a reservation for a run is checked, since its task may no longer exist, and at "
        "which the usage of an ended run is read again.",
    )
    start_settle_seconds: float = Field(
        default=10,
        ge=0,
        description="How long to look for a run whose start was not confirmed, before starting another.",
    )
    restored_interval: str | None = Field(
        default=None,
        description="Period from the backup to the start of the restored system, `FROM/UNTIL` in ISO 8601: before a "
        "task starts a run, it looks for a run that was started in this period.",
    )
    progress_seconds: float = Field(
        default=1,
        gt=0,
        le=60,
        description="How often the status message of a new run is read; that of an older run is read less often.",
    )
    request_timeout_seconds: float = Field(
        default=60, gt=0, le=300, description="Time limit of one request to the Apify platform."
    )
    stuck_attempts: int = Field(
        default=10,
        ge=2,
        description="Number of consecutive failures of a workflow step after which its task may be ended.",
    )
    stuck_after_seconds: float = Field(
        default=1_800,
        ge=0,
        description="How long such a step must have failed before its task is ended; 0 ends no tasks.",
    )
    takeover_seconds: float = Field(
        default=10,
        ge=1,
        le=60,
        description="How long a task waits for the worker that has it in memory before another one continues it.",
    )
    shutdown_seconds: float = Field(
        default=20, ge=0, description="Time that activities have to finish when the worker stops."
    )
    docs_site_url: str = Field(
        default="https://docs.apify.com/,https://crawlee.dev/",
        description="Roots of the documentation that can be searched and fetched, comma-separated. They may be on "
        "private addresses.",
    )
    docs_index_url: str | None = Field(
        default=None,
        description="Sitemaps or `llms.txt` of those sites, comma-separated, if they are not at the root of the site.",
    )
    docs_index_seconds: float = Field(default=3_600, ge=0, description="How long the index of the docs is kept.")
    docs_index_pages: int = Field(
        default=400,
        ge=0,
        description="Maximum number of pages whose text is indexed; others are found by title and address.",
    )
    webhook_retry_hours: float = Field(
        default=72, gt=0, le=720, description="How long the delivery of an event to a webhook is retried."
    )
    webhook_first_pause_seconds: float = Field(
        default=5,
        gt=0,
        le=3_600,
        description="Pause after the first failed attempt to deliver it; later ones grow.",
    )
    webhook_timeout_seconds: float = Field(
        default=15, gt=0, le=60, description="Time limit of one attempt to deliver an event to a webhook."
    )

    responder_webhook_url: SecretStr | None = Field(
        default=None,
        description="Webhook for the messages of tools to users, in the form of Slack's incoming webhooks.",
    )
    bash_slots: int = Field(
        default=4, ge=1, description="Maximum number of concurrent commands of one worker; others wait."
    )
    bash_slots_per_caller: int | None = Field(
        default=None,
        ge=1,
        description="Maximum number of concurrent commands of one caller on one worker. Default: half of all.",
    )
    bash_memory_mbytes: int = Field(
        default=1_024, ge=64, description="Memory that all processes of one command may hold together."
    )
    bash_processes: int = Field(default=128, ge=8, description="Processes and threads that one command may have.")

    openai_api_key: SecretStr | None = Field(
        default=None,
        validation_alias=AliasChoices("OUTLAST_OPENAI_API_KEY", "OPENAI_API_KEY", "openai_api_key"),
        description="Key of OpenAI's API.",
    )
    openai_base_url: str | None = Field(
        default=None,
        validation_alias=AliasChoices("OUTLAST_OPENAI_BASE_URL", "OPENAI_BASE_URL", "openai_base_url"),
        description="Root of OpenAI's API or of a server that speaks its Responses API, with the version.",
    )
    anthropic_api_key: SecretStr | None = Field(
        default=None,
        validation_alias=AliasChoices("OUTLAST_ANTHROPIC_API_KEY", "ANTHROPIC_API_KEY", "anthropic_api_key"),
        description="Key of Anthropic's API.",
    )
    anthropic_base_url: str | None = Field(
        default=None,
        validation_alias=AliasChoices("OUTLAST_ANTHROPIC_BASE_URL", "ANTHROPIC_BASE_URL", "anthropic_base_url"),
        description="Root of Anthropic's API, without the version.",
    )
    zai_api_key: SecretStr | None = Field(default=None, description="Key of Z.ai's API.")
    zai_base_url: str | None = Field(default=None, description="Root of Z.ai's API, with the version.")
    generic_api_key: SecretStr | None = Field(
        default=None, description="Key of the server behind the provider `generic`, if it needs one."
    )
    generic_base_url: str | None = Field(
        default=None, description="Root of a server that speaks OpenAI's Chat Completions API, with the version."
    )
    model_slots: int = Field(default=200, ge=1, description="Maximum number of concurrent model calls of one worker.")
    model_silence_seconds: float = Field(
        default=300,
        gt=0,
        le=1_140,
        description="How long a model may be silent before its call is repeated.",
    )
    delta_seconds: float = Field(
        default=0.2,
        ge=0.05,
        le=60,
        description="How often streamed text is forwarded; each time adds 4 events to the history.",
    )

    @field_validator("queues")
    @classmethod
    def _of_known_queues(cls, value: str) -> str:
        named = {name.strip() for name in value.split(",")}
        if not named <= QUEUES.keys():
            raise ValueError(f"takes names of {', '.join(QUEUES)}, comma-separated")
        return value

    @field_validator("restored_interval")
    @classmethod
    def _is_an_interval(cls, value: str | None) -> str | None:
        if value:
            RestoredInterval.parse(value)
        return value or None

    @property
    def restored_period(self) -> RestoredInterval | None:
        """`restored_interval`, read; None for a system that was not restored."""
        return RestoredInterval.parse(self.restored_interval) if self.restored_interval else None

    @property
    def task_queues(self) -> frozenset[str]:
        """`queues` as the names of task queues."""
        return frozenset(QUEUES[name.strip()] for name in self.queues.split(","))

    @property
    def deployment(self) -> WorkerDeploymentConfig | None:
        """The version of the worker; None when it is not versioned. `workflows/versioning.py` says what moves on."""
        if self.build_id is None:
            return None
        version = WorkerDeploymentVersion(deployment_name=self.deployment_name, build_id=self.build_id)
        return WorkerDeploymentConfig(
            version=version, use_worker_versioning=True, default_versioning_behavior=VersioningBehavior.PINNED
        )

    @property
    def reservation_check(self) -> timedelta:
        """`reservation_check_seconds` as a timedelta."""
        return timedelta(seconds=self.reservation_check_seconds)

    @property
    def progress_interval(self) -> timedelta:
        """`progress_seconds` as a timedelta."""
        return timedelta(seconds=self.progress_seconds)

    @property
    def shutdown_time(self) -> timedelta:
        """`shutdown_seconds` as a timedelta."""
        return timedelta(seconds=self.shutdown_seconds)

    @property
    def stuck_limits(self) -> StuckLimits | None:
        """When a task counts as stuck; None when none is to be ended."""
        if self.stuck_after_seconds == 0:
            return None
        return StuckLimits(attempts=self.stuck_attempts, after_seconds=self.stuck_after_seconds)

    @property
    def start_settle(self) -> timedelta:
        """`start_settle_seconds` as a timedelta."""
        return timedelta(seconds=self.start_settle_seconds)

    @property
    def sweep_grace(self) -> timedelta:
        """`sweep_grace_seconds` as a timedelta."""
        return timedelta(seconds=self.sweep_grace_seconds)

    @property
    def request_timeout(self) -> timedelta:
        """`request_timeout_seconds` as a timedelta."""
        return timedelta(seconds=self.request_timeout_seconds)
