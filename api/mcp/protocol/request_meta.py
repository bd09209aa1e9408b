"""The keys that Outlast reads from the `_meta` of a `tools/call`."""

from collections.abc import Mapping
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS
from pydantic import ValidationError

from outlast.contracts.tasks import ConnectedTaskRequest, TaskRequest
from outlast.workflows.contracts.tool_masks import normalised

IDEMPOTENCY_META = "outlast/idempotency-key"
"""The same key and call give the same task."""
SESSION_META = "outlast/session-id"
MASK_META = "outlast/tool-mask"
"""Which tools may be called; the `tool_mask` of the REST API."""
_FIELDS = {
    SESSION_META: "session_id",
    "outlast/message-id": "message_id",
    "outlast/tool-call-id": "tool_call_id",
    "outlast/options": "options",
    MASK_META: "tool_mask",
}
"""Each key in `_meta`, and the field of `TaskRequest` that it sets."""
_MAX_KEY_CHARS = 255


def task_request(meta: Mapping[str, Any], **fields: Any) -> TaskRequest:
    """The request with `fields` and the values of `meta`. Raises -32602 that names the invalid keys."""
    from_meta = {field: meta[key] for key, field in _FIELDS.items() if meta.get(key) is not None}
    try:
        return ConnectedTaskRequest(**fields, **from_meta)
    except ValidationError as error:
        messages = {str(entry["loc"][0]): entry["msg"] for entry in error.errors(include_url=False)}
        text = "; ".join(f"_meta[{key!r}]: {messages[field]}" for key, field in _FIELDS.items() if field in messages)
        raise MCPError(INVALID_PARAMS, text or str(error)) from error


def idempotency_key(meta: Mapping[str, Any]) -> str | None:
    """The idempotency key of a call, if any. Raises -32602 for an invalid one."""
    key: object = meta.get(IDEMPOTENCY_META)
    if key is None:
        return None
    if not isinstance(key, str) or not 1 <= len(key) <= _MAX_KEY_CHARS:
        raise MCPError(
            INVALID_PARAMS, f"_meta[{IDEMPOTENCY_META!r}] must be a string of 1 to {_MAX_KEY_CHARS} characters."
        )
    return key


def tool_mask(meta: Mapping[str, Any]) -> dict[str, bool] | None:
    """The tool mask of a call, normalised. Raises -32602 when it is not an object."""
    try:
        return normalised(meta.get(MASK_META))
    except ValueError as error:
        raise MCPError(INVALID_PARAMS, f"_meta[{MASK_META!r}] {error}.") from error
