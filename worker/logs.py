"""Structured log lines on standard error, as text for people or JSON for machines, without secrets.

All lines of a process go this way: those of Outlast, uvicorn and the Temporal SDK, warnings, and uncaught exceptions.
With JSON every line is one object.
"""

import logging
import os
import sys
from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any, Literal, TextIO, cast, get_args

import structlog
from opentelemetry import trace
from pydantic import BaseModel, SecretBytes, SecretStr
from temporalio import activity, workflow

from outlast.activities.contracts import SealedSecret
from outlast.activities.failures.classify import without_credentials
from outlast.activities.secrets import is_sealed
from outlast.activities.tool_secrets import hide_known
from outlast.uncaught_errors import log_uncaught_errors
from outlast.worker.log_lines import TaskLines, one_line
from outlast.workflows.handler_api.observability import TASK_LOGGER, Part

_MASK = "[redacted]"

log = logging.getLogger("outlast")


def configure_early_logging() -> None:
    """Configure logging by OUTLAST_LOG_FORMAT alone, for errors in the settings themselves."""
    configure_logging("json" if os.environ.get("OUTLAST_LOG_FORMAT") == "json" else "text", "info")


def configure_logging(log_format: Literal["text", "json"], level: str, tasks: TaskLines | None = None) -> None:
    """Send every line of this process through one pipeline: loggers, warnings and uncaught exceptions.

    `level` is the least level written: `debug`, `info`, `warning` or `error`. `tasks` says which lines about tasks are.
    """
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(allow=_EXTRAS),
        _name_the_task,
        _name_the_trace,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        _redact_secrets,
    ]
    # JSON escapes what could break a line; text does not.
    rendering: list[structlog.typing.Processor] = (
        [structlog.processors.JSONRenderer()]
        if log_format == "json"
        else [one_line, structlog.dev.ConsoleRenderer(colors=False)]
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering],
        )
    )
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    workflow.logger.workflow_info_on_message = False
    activity.logger.activity_info_on_message = False
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    (tasks or TaskLines()).write_through(logging.getLogger(TASK_LOGGER), root.level)
    # watchfiles reports each change of a folder: where a log is written into the folder, also each of these lines.
    for noisy in ("httpx", "httpcore", "httpx2", "httpcore2", "apify_client", "uvicorn.access", "watchfiles"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    log_uncaught_errors(log)


def hide_secrets_of_tools() -> None:
    """Hide the secrets of tools also in what is printed, because it goes to the same file as the log."""
    sys.stdout = cast(TextIO, _WithoutSecrets(sys.stdout))
    sys.stderr = cast(TextIO, _WithoutSecrets(sys.stderr))


class _WithoutSecrets:
    """A stream whose texts lose the secrets of tools."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        self._stream.write(hide_known(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        self._stream.writelines(map(hide_known, lines))


_EXTRAS = (
    "tool",
    "caller",
    "session",
    "is_error",
    "task",
    "attempt",
    "step",
    "phase",
    "mask_outcome",
    "selected",
    "skipped",
    "mode",
    "tools",
    "hidden",
    "actors",
    "mcp_servers",
    "not_loaded",
    "granted",
    "answered_by",
    "task_event",
    "run",
    "outcome",
    "error",
    "slow",
    "seconds",
    "fields",
    *(f"{part}_seconds" for part in get_args(Part)),
    "temporal_activity",
    "temporal_workflow",
)
_TEMPORAL_EXTRAS = ("temporal_activity", "temporal_workflow")


def _name_the_task(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Of Temporal's fields keep the task and, from the second on, the attempt."""
    for name in _TEMPORAL_EXTRAS:
        details: Mapping[str, Any] = event.pop(name, None) or {}
        if details:
            event.setdefault("task", details.get("workflow_id"))
        if details.get("attempt", 1) > 1:
            event["attempt"] = details["attempt"]
    return event


def _name_the_trace(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Add the trace that is being made, if any: its id is the same in the lines of every process."""
    span = trace.get_current_span().get_span_context()
    if span.is_valid:
        event["trace_id"] = trace.format_trace_id(span.trace_id)
    return event


def _redact_secrets(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    return {key: without_secrets(value) for key, value in event.items()}


def without_secrets(value: object) -> object:
    """`value` as a log may hold it: secret types are masked, and whatever looks like a credential in texts.

    Objects of unknown types, exceptions for example, become their `repr`.
    """
    match value:
        case None | bool() | int() | float():
            return value
        case SecretStr() | SecretBytes() | SealedSecret():
            return _MASK
        case BaseModel():
            return {name: without_secrets(getattr(value, name)) for name in type(value).model_fields}
        case Mapping():
            entries = cast(Mapping[object, object], value)
            plain = {key: without_secrets(entry) for key, entry in entries.items()}
            return _MASK if is_sealed(entries) else plain
        case list() | tuple() | set() | frozenset():
            return [without_secrets(entry) for entry in cast(Iterable[object], value)]
        case _:
            return without_credentials(hide_known(value if isinstance(value, str) else repr(value)))
