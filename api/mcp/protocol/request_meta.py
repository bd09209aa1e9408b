"""Keys of `_meta` in a `tools/call`, `requestState` (MCP 2026-07-28), and notifications of its progress.

`requestState` identifies the task whose questions a repeated call answers. Clients store it, so it is encrypted for its
caller and tool: a changed state, and that of another caller, are refused.
"""

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, cast

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS
from pydantic import SecretStr, TypeAdapter, ValidationError

from outlast.activities.contracts import Caller, SealedSecret
from outlast.activities.failures.exceptions import SealError
from outlast.activities.secrets import SecretSealer
from outlast.api.local_calls import merged_options
from outlast.api.mcp.protocol.versions import Context
from outlast.contracts.options import CallOptions, options_of, to_wire
from outlast.contracts.tasks import ConnectedTaskRequest, TaskRequest
from outlast.workflows.contracts import tool_calls
from outlast.workflows.contracts.tool_masks import normalised
from outlast.workflows.contracts.unknown_fields import DeclaredOptions

IDEMPOTENCY_META = "outlast/idempotency-key"
"""The same key and call give the same task."""
SESSION_META = "outlast/session-id"
MASK_META = "outlast/tool-mask"
"""The tools that may be called; `tool_mask` of the REST API."""
OPTIONS_META = "outlast/options"
"""Options by name, or in the nested form of the REST API."""
_FIELDS = {
    SESSION_META: "session_id",
    "outlast/message-id": "message_id",
    "outlast/tool-call-id": "tool_call_id",
    OPTIONS_META: "options",
    MASK_META: "tool_mask",
}
"""Each key in `_meta`, and the field of `TaskRequest` that it sets."""
_PATHS = {name: option.wire or "" for name, option in options_of(CallOptions).items()}
META_OPTIONS = DeclaredOptions(
    CallOptions, leave_out={name for name, path in _PATHS.items() if not path.startswith("options.")}
)
"""Options that `outlast/options` takes by name. The others have their own key, or are the connection's (`mode`)."""
_BY_NAME: TypeAdapter[dict[str, Any]] = TypeAdapter(Annotated[dict[str, Any], META_OPTIONS])
_NESTED = frozenset(tool_calls.CallOptions.model_fields)
_MAX_KEY_CHARS = 255


def task_request(meta: Mapping[str, Any], **fields: Any) -> TaskRequest:
    """Return the request with `fields` and the values of `meta`. Raises -32602 that names the invalid keys."""
    from_meta = {field: meta[key] for key, field in _FIELDS.items() if meta.get(key) is not None}
    if isinstance(from_meta.get("options"), Mapping):
        from_meta["options"] = _nested(from_meta["options"])
    try:
        return ConnectedTaskRequest(**fields, **from_meta)
    except ValidationError as error:
        messages = {str(entry["loc"][0]): entry["msg"] for entry in error.errors(include_url=False)}
        text = "; ".join(f"_meta[{key!r}]: {messages[field]}" for key, field in _FIELDS.items() if field in messages)
        raise MCPError(INVALID_PARAMS, text or str(error)) from error


def options_for_started_calls(meta: Mapping[str, Any]) -> dict[str, Any]:
    """The options for calls that a local tool starts, in the form of the REST API. Raises -32602 for invalid ones."""
    options: object = meta.get(OPTIONS_META)
    if options is not None and not isinstance(options, Mapping):
        raise MCPError(INVALID_PARAMS, f"_meta[{OPTIONS_META!r}] must be an object.")
    return _nested(cast(Mapping[str, Any], options or {}))


def _nested(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options in the form of the REST API. Raises -32602 for one that is unknown, invalid or given twice."""
    nested = {name: value for name, value in options.items() if _is_nested(name, value)}
    try:
        by_name = _BY_NAME.validate_python({name: value for name, value in options.items() if name not in nested})
    except ValidationError as error:
        found = error.errors(include_url=False)[0]
        place = "" if found["type"] == "extra_forbidden" else f"{'.'.join(map(str, found['loc']))}: "
        raise MCPError(INVALID_PARAMS, f"_meta[{OPTIONS_META!r}]: {place}{found['msg']}") from error
    try:
        return merged_options(nested, cast(Mapping[str, Any], to_wire(CallOptions, by_name).get("options", {})))
    except ValueError as error:
        raise MCPError(INVALID_PARAMS, f"_meta[{OPTIONS_META!r}] has {error} twice, by two names.") from error


def _is_nested(name: str, value: object) -> bool:
    """Check for the form of the REST API: `reuse` is an object there, and a text as a declared option."""
    path = _PATHS.get(name, f"options.{name}")
    return name in _NESTED and (path == f"options.{name}" or isinstance(value, Mapping))


def idempotency_key(meta: Mapping[str, Any]) -> str | None:
    """Return the idempotency key of a call, if any. Raises -32602 for an invalid one."""
    key: object = meta.get(IDEMPOTENCY_META)
    if key is None:
        return None
    if not isinstance(key, str) or not 1 <= len(key) <= _MAX_KEY_CHARS:
        raise MCPError(
            INVALID_PARAMS, f"_meta[{IDEMPOTENCY_META!r}] must be a string of 1 to {_MAX_KEY_CHARS} characters."
        )
    return key


def tool_mask(meta: Mapping[str, Any]) -> dict[str, bool] | None:
    """Return the tool mask of a call, normalised. Raises -32602 when it is not an object."""
    try:
        return normalised(meta.get(MASK_META))
    except ValueError as error:
        raise MCPError(INVALID_PARAMS, f"_meta[{MASK_META!r}] {error}.") from error


class RequestStates:
    """Encrypts and decrypts `requestState`."""

    def __init__(self, sealer: SecretSealer) -> None:
        self._sealer = sealer

    def state_of(self, caller: Caller, task_id: str, tool: str) -> str:
        """Return the state for the questions of `task_id`. Each call returns a different string."""
        sealed = self._sealer.seal(SecretStr(json.dumps([task_id, tool])), purpose=_purpose(caller))
        return base64.urlsafe_b64encode(sealed.model_dump_json().encode()).decode()

    def task_in(self, caller: Caller, state: str, tool: str) -> str:
        """Return the id of the task. Raises -32602 for a state of another caller or of another tool."""
        try:
            sealed = SealedSecret.model_validate_json(base64.b64decode(state.encode(), altchars=b"-_", validate=True))
            task_id, state_tool = json.loads(self._sealer.open(sealed, purpose=_purpose(caller)).get_secret_value())
        except (ValueError, ValidationError, SealError) as error:
            raise _invalid_state() from error
        if state_tool != tool:
            raise _invalid_state()
        return str(task_id)


def _purpose(caller: Caller) -> str:
    return f"request-state:{caller.id}"


def _invalid_state() -> MCPError:
    return MCPError(
        INVALID_PARAMS,
        "This requestState was not issued to you for this tool. Send the one of the last input_required result.",
    )


@dataclass(frozen=True)
class ProgressNote:
    """One step of a call for its client. Without `done`, `ProgressSteps` counts the steps."""

    message: str
    done: float | None = None
    total: float | None = None
    meta: Mapping[str, Any] | None = None
    """The `_meta` of the notification."""


@dataclass(frozen=True)
class ProgressFacts:
    """An event of a task, with the Actor and the run, if known."""

    event: str
    data: Mapping[str, Any]
    actor: str | None = None
    run_id: str | None = None


class ProgressSteps:
    """The steps of one call, from the events of its task: each is reported once."""

    def __init__(self, note_of: Callable[[ProgressFacts], ProgressNote | None], actor: str | None = None) -> None:
        """`note_of` words an event; `actor` is the Actor that the call runs, as it was named."""
        self._note_of = note_of
        self._actor = actor
        self._progress = 0.0
        self._run_id: str | None = None
        self._last: str | None = None

    def after(self, event: str, data: Mapping[str, Any]) -> ProgressNote | None:
        """Return the note of an event, with its progress; None if it is not reported, or was reported before."""
        started = data.get("run_id")
        self._run_id = started if isinstance(started, str) else self._run_id
        note = self._note_of(ProgressFacts(event, data, self._actor, self._run_id))
        if note is None or (note.done is None and note.message == self._last):
            return None
        self._last = note.message
        self._progress = self._progress + 1 if note.done is None else note.done
        return replace(note, done=self._progress)


def wants_progress(ctx: Context) -> bool:
    """Check whether the client requested progress."""
    return "progress_token" in (ctx.meta or {})


def progress_notification(ctx: Context, note: ProgressNote, meta: Mapping[str, Any]) -> types.ProgressNotification:
    """Return the notification for the request of `ctx` as the SDK makes it, with `meta` as its `_meta`."""
    token: object = (ctx.meta or {}).get("progress_token")
    params = {"progress": note.done, "total": note.total, "message": note.message}
    return types.ProgressNotification(
        params=types.ProgressNotificationParams.model_validate({"progressToken": token, **params, "_meta": dict(meta)})
    )
