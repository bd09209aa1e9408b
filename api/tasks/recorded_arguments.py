"""Arguments as histories hold them: secret parts are encrypted, large parts are references to the store.

Input fields are secret if the Actor's input schema marks them `isSecret` (Apify input schema, version 1), or a direct
Actor tool marks them `writeOnly`. Without a known schema, the whole input is secret. Other tools name their secrets.
Other large arguments are refused, because a workflow that decodes them blocks its worker.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import JsonValue
from pydantic_core import to_json

from outlast.activities.contracts import Caller, ErrorCategory, ErrorEnvelope, JsonObject
from outlast.activities.failures.exceptions import SealError, StoreUnavailable
from outlast.activities.json_values import MAX_BYTES, MAX_VALUES, has_more_values
from outlast.activities.object_store import KeptParts
from outlast.activities.outputs.output_format import references_in
from outlast.activities.secrets import (
    MASK,
    SecretSealer,
    is_mark,
    is_sealed,
    open_values,
    places_of_masks,
    seal_value,
    unmasked,
)
from outlast.api.catalog.catalog import CalledActor
from outlast.api.errors import CallTooLarge, InvalidCall, OutputStoreUnavailable
from outlast.workflows.contracts.tool_calls import ToolCall
from outlast.workflows.tools.core.payments import INPUT_CALLERS
from outlast.workflows.tools.framework.sealed_parts import Seal, with_sealed_parts
from outlast.workflows.tools.framework.tool import Tool


def seal_arguments(
    tool: Tool, arguments: JsonObject, actor: CalledActor | None, sealer: SecretSealer, caller: Caller
) -> JsonObject:
    """`arguments` with the secret parts encrypted for `caller`."""
    return _apply(lambda value: seal_value(value, sealer, purpose=caller.id), tool, arguments, actor)


def seal_edited_arguments(
    tool: Tool, arguments: JsonObject, actor: CalledActor | None, sealer: SecretSealer, caller: Caller
) -> JsonObject:
    """Like `seal_arguments`, but masks and marks stay: they stand for values that were stored before."""

    def seal(value: JsonValue) -> JsonValue:
        return value if value == MASK or is_mark(value) else seal_value(value, sealer, purpose=caller.id)

    return _apply(seal, tool, arguments, actor)


def with_masked_values(
    edited: JsonObject, sealed: JsonValue, sealer: SecretSealer, caller: Caller, tool: str
) -> JsonObject:
    """`edited` with the secrets of `sealed` in place of its masks.

    Raises `InvalidCall` if one of them cannot be decrypted.
    """
    if not places_of_masks(edited):
        return edited
    try:
        opened = open_values(unmasked(edited, sealed), sealer, purpose=caller.id)
    except SealError as error:
        raise InvalidCall(ErrorEnvelope.permanent(ErrorCategory.VALIDATION, tool, str(error))) from error
    assert isinstance(opened, dict), "an object is opened as one"
    return opened


def _apply(seal: Seal, tool: Tool, arguments: JsonObject, actor: CalledActor | None) -> JsonObject:
    return with_sealed_parts(seal, tool, arguments, actor.input_schema if actor else None)


KEPT_ABOVE_BYTES = 64 * 1024
"""An Actor's input up to this size stays in the call."""
MAX_CALL_BYTES = 32 * 1024 * 1024
"""Limit of all arguments together. OUTLAST_MAX_BODY_BYTES, 8 MB by default, rejects larger REST requests earlier."""
_KEPT_FIELD_BYTES = 4 * 1024
"""Smaller fields of a large input stay in the call, unless there are very many."""
_PLAIN_FIELDS = 64


@dataclass(frozen=True)
class LightCall:
    """A call without large parts, and the stored outputs to which its whole arguments refer."""

    call: ToolCall
    references: tuple[str, ...]


class LargeArguments:
    """Stores the large parts of calls' arguments."""

    def __init__(self, kept: KeptParts) -> None:
        self._kept = kept

    async def lighten(self, call: ToolCall, task_id: str) -> LightCall:
        """`call` as the workflow `task_id` receives it. Raises `CallTooLarge`, `OutputStoreUnavailable`."""
        arguments = call.arguments
        fields = _texts_of(arguments) if _is_plain(arguments) else await asyncio.to_thread(_texts_of, arguments)
        size = sum(map(len, fields.values()))
        if size > MAX_CALL_BYTES:
            raise _too_large(call, f"{size} bytes; the limit is {MAX_CALL_BYTES}")
        references = references_in("\n".join(text.decode() for text in fields.values()))
        if size > KEPT_ABOVE_BYTES:
            call = await self._without_large_input(call, task_id)
        check_values(call.arguments, f"The arguments of {call.tool} have", tool=call.tool)
        size = sum(len(_member(field)) for field in _texts_of(call.arguments).items())
        if size > MAX_BYTES:
            raise _too_large(call, f"{size} bytes; the limit is {MAX_BYTES} for all but the input of an Actor")
        return LightCall(call, references)

    async def _without_large_input(self, call: ToolCall, task_id: str) -> ToolCall:
        """`call` with references in its input; unchanged if it runs no Actor."""
        arguments = call.arguments
        if call.actor is not None and not call.proxies_mcp:
            return call.model_copy(update={"arguments": await self._light(arguments, task_id)})
        run_input, actor = arguments.get("input"), arguments.get("actor")
        calls_mcp_tool = isinstance(actor, str) and ":" in actor  # its arguments are sent in another way
        if call.tool not in INPUT_CALLERS or calls_mcp_tool or not isinstance(run_input, dict):
            return call
        if is_sealed(run_input):
            light = await self._kept_part(run_input, to_json(run_input), task_id)
        else:
            light = await self._light(run_input, task_id)
        return call.model_copy(update={"arguments": {**arguments, "input": light}})

    async def _light(self, run_input: JsonObject, task_id: str) -> JsonValue:
        """The input with references for its large fields, or one reference if the rest is large, too."""
        texts = await asyncio.to_thread(_texts_of, run_input)
        rest = sum(len(text) for text in texts.values() if len(text) <= _KEPT_FIELD_BYTES)
        has_secrets = any(isinstance(value, dict) and is_sealed(value) for value in run_input.values())
        if rest > KEPT_ABOVE_BYTES and not has_secrets:
            return await self._kept_part(run_input, b"{" + b",".join(map(_member, texts.items())) + b"}", task_id)
        return {
            name: await self._kept_part(value, texts[name], task_id) if len(texts[name]) > _KEPT_FIELD_BYTES else value
            for name, value in run_input.items()
        }

    async def _kept_part(self, value: JsonValue, text: bytes, task_id: str) -> JsonValue:
        try:
            return await self._kept.keep(task_id, text, secret=isinstance(value, dict) and is_sealed(value))
        except StoreUnavailable as error:
            message = "The store that keeps large inputs does not answer. Nothing was started; call again."
            raise OutputStoreUnavailable(message) from error


def check_values(document: object, what: str, *, tool: str = "") -> None:
    """Raise `CallTooLarge` for a document with more values than a workflow may decode."""
    if has_more_values(document):
        advice = "Put the data into a dataset or a key-value store, and pass its id."
        raise CallTooLarge(f"{what} more than {MAX_VALUES} values. {advice}", tool=tool)


def _too_large(call: ToolCall, size: str) -> CallTooLarge:
    advice = "Put the large part into a key-value store or dataset, and pass its id."
    return CallTooLarge(f"The arguments of {call.tool} have {size}. {advice}", tool=call.tool)


def _is_plain(arguments: Mapping[str, JsonValue]) -> bool:
    """Return whether they are a few short values: for these, a thread would take longer than the work."""
    return len(arguments) <= _PLAIN_FIELDS and all(
        len(value) <= _KEPT_FIELD_BYTES if isinstance(value, str) else not isinstance(value, dict | list)
        for value in arguments.values()
    )


def _texts_of(document: Mapping[str, JsonValue]) -> dict[str, bytes]:
    return {name: to_json(value) for name, value in document.items()}


def _member(field: tuple[str, bytes]) -> bytes:
    name, text = field
    return to_json(name) + b":" + text
