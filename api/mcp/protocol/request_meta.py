"""What a client may say of a call in its `_meta`, beside the arguments."""

from collections.abc import Mapping
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS
from pydantic import ValidationError

from outlast.api.contracts.tasks import TaskRequest
from outlast.workflows.runtime.masks import normalised

IDEMPOTENCY_META = "outlast/idempotency-key"
"""The same key and call give the same task."""
SESSION_META = "outlast/session-id"
MASK_META = "outlast/tool-mask"
"""Which tools may be called, as `toolMask` of REST."""
_FIELDS = {
    SESSION_META: "session_id",
    "outlast/message-id": "message_id",
    "outlast/tool-call-id": "tool_call_id",
    "outlast/options": "options",
    MASK_META: "tool_mask",
}
"""Keys in `_meta` and the fields of `TaskRequest` that they set."""
_MAX_KEY_CHARS = 255


def task_request(meta: Mapping[str, Any], **fields: Any) -> TaskRequest:
    """The request with `fields` and what `meta` says. Raises `MCPError` that names the key that does not fit."""
    said = {field: meta[key] for key, field in _FIELDS.items() if meta.get(key) is not None}
    try:
        return TaskRequest(**fields, **said)
    except ValidationError as error:
        wrong = {str(entry["loc"][0]): entry["msg"] for entry in error.errors(include_url=False)}
        named = "; ".join(f"_meta[{key!r}]: {wrong[field]}" for key, field in _FIELDS.items() if field in wrong)
        raise MCPError(INVALID_PARAMS, named or str(error)) from error


def idempotency_key(meta: Mapping[str, Any]) -> str | None:
    """The idempotency key of a call. Raises `MCPError` for one that cannot be."""
    key: object = meta.get(IDEMPOTENCY_META)
    if key is None:
        return None
    if not isinstance(key, str) or not 1 <= len(key) <= _MAX_KEY_CHARS:
        raise MCPError(INVALID_PARAMS, f"_meta[{IDEMPOTENCY_META!r}] takes a text of 1 to {_MAX_KEY_CHARS} characters.")
    return key


def tool_mask(meta: Mapping[str, Any]) -> dict[str, bool] | None:
    """The mask of a call, normalised. Raises `MCPError` for what is no object."""
    try:
        return normalised(meta.get(MASK_META))
    except ValueError as error:
        raise MCPError(INVALID_PARAMS, f"_meta[{MASK_META!r}] {error}.") from error
