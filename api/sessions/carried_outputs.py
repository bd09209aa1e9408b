"""The stored outputs of a conversation that is exported or imported."""

import base64
from collections.abc import AsyncGenerator, Iterable, Mapping
from datetime import timedelta

from pydantic_core import to_json

from outlast.activities.contracts import Caller
from outlast.activities.conversations.contracts import ModelMessage
from outlast.activities.outputs.contracts import OutputScope
from outlast.activities.outputs.manifest import OutputManifest, locators_in
from outlast.activities.outputs.reader import Room
from outlast.api.errors import OutputRefusal
from outlast.api.outputs import OutputTooLarge, StoredOutputs
from outlast.contracts.sessions import ExportedOutput, OutputLeftOut, SessionExport

_TOO_LARGE = "too-large"
_COPIES = 6
"""Memory that an output takes on its way into the document, in multiples of its size."""


async def with_outputs(
    exported: SessionExport, outputs: StoredOutputs, caller: Caller, room: Room, limit_bytes: int
) -> AsyncGenerator[bytes]:
    """The JSON of `exported` with the outputs that its messages name, as far as the document keeps to the limit.

    One output at a time is in memory, and in the caller's `room`. Those that do not fit, or are gone, are named in
    `left_out`.
    """
    document = exported.model_dump_json(by_alias=True, exclude={"outputs", "left_out"}).encode()
    del exported
    left, left_out, separator = limit_bytes - len(document), list[OutputLeftOut](), b""
    locators = list(locators_in(document.decode()))
    async with room.hold(2 * len(document)):
        yield document[:-1] + b',"outputs":['
        del document
    for locator in locators:
        try:
            async with outputs.whole(caller, locator, most_bytes=left, copies=_COPIES) as (manifest, content):
                found = _exported(locator, manifest, content)
                del content
                if len(found) >= left:
                    left_out.append(OutputLeftOut(locator=locator, reason=_TOO_LARGE))
                    continue
                left -= len(found) + 1
                yield separator + found
                del found
                separator = b","
        except OutputRefusal as error:
            left_out.append(OutputLeftOut(locator=locator, reason=error.slug))
        except OutputTooLarge:
            left_out.append(OutputLeftOut(locator=locator, reason=_TOO_LARGE))
    yield b'],"left_out":' + to_json(left_out) + b"}"


async def restored_outputs(
    imported: SessionExport, outputs: StoredOutputs, caller: Caller, session_id: str, ttl: timedelta
) -> dict[str, str]:
    """Store the outputs of an import as the session's own; their new locators by the old ones."""
    renamed: dict[str, str] = {}
    for output in imported.outputs:
        scope = OutputScope(
            caller_id=caller.id,
            session_id=session_id,
            tool_call_id=output.tool_call_id,
            task_id=f"import-of-{session_id}",
        )
        content = output.base64 if output.base64 is not None else (output.text or "").encode(errors="replace")
        if output.kind == "rows" and content and not content.endswith(b"\n"):
            content += b"\n"
        renamed[output.locator] = await outputs.store(
            scope, content, what=f"import {output.locator}", kind=output.kind, content_type=output.content_type, ttl=ttl
        )
    return renamed


def with_locators(messages: Iterable[ModelMessage], renamed: Mapping[str, str]) -> tuple[ModelMessage, ...]:
    """The messages with other locators."""
    return tuple(_renamed(message, renamed) for message in messages)


def _renamed(message: ModelMessage, renamed: Mapping[str, str]) -> ModelMessage:
    text = message.model_dump_json()
    named = [locator for locator in locators_in(text) if locator in renamed]
    for locator in named:
        text = text.replace(locator, renamed[locator])
    return ModelMessage.model_validate_json(text) if named else message


def _exported(locator: str, manifest: OutputManifest, content: bytes) -> bytes:
    is_binary = manifest.kind == "binary"
    exported = ExportedOutput.model_construct(
        locator=locator,
        tool_call_id=manifest.tool_call_id,
        kind=manifest.kind,
        content_type=manifest.content_type,
        text=None if is_binary else content.decode(errors="replace"),
    ).model_dump(mode="json", exclude_none=True)
    return to_json(exported | ({"base64": base64.b64encode(content).decode()} if is_binary else {}))
