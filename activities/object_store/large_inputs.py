"""Large parts of a run's input in the object store, and the input as text with the parts in their places. They lie
beside the payloads of the task's workflow, `payloads/<namespace>/<workflow id>/<sha256>`, so that the sweep keeps them
as long as Temporal keeps the workflow.
"""

import asyncio
import hashlib

from pydantic import JsonValue
from pydantic_core import to_json

from outlast.activities.failures.classify import ToolFailure
from outlast.activities.failures.contracts import ErrorCategory
from outlast.activities.object_store.objects import OutputObjects, StoredPayload, payload_key
from outlast.activities.secrets.placeholders import KeptPart, part_of

PATIENT_ATTEMPTS = 8
"""Attempts in which a missing part is waited for, some 90 seconds: a worker with the wrong store may have had them."""


class KeptParts:
    """The large parts of the inputs of one namespace's tasks."""

    def __init__(self, objects: OutputObjects, *, namespace: str) -> None:
        self._objects = objects
        self._namespace = namespace

    async def keep(self, task_id: str, text: bytes, *, secret: bool) -> JsonValue:
        """Write the JSON text, and return its mark. Raises what `OutputObjects` raises."""
        digest = await asyncio.to_thread(_digest, text)
        await self._objects.put(self._key(task_id, digest), text)
        return KeptPart.of(text, digest, secret=secret).as_mark

    async def text_of(self, value: JsonValue, *, task_id: str, attempt: int = PATIENT_ATTEMPTS) -> bytes:
        """`value` as JSON; the kept text when it is a mark. Raises `ToolFailure` for a part that is missing or damaged,
        not to be retried after `PATIENT_ATTEMPTS`, and what `OutputObjects` raises.
        """
        part = part_of(value)
        if part is None:
            return to_json(value)
        text = await self._objects.get(self._key(task_id, part.sha256))
        if text is None or await asyncio.to_thread(_digest, text) != part.sha256:
            raise _lost(part, missing=text is None, attempt=attempt)
        return text

    def _key(self, task_id: str, digest: str) -> str:
        return payload_key(StoredPayload(self._namespace, task_id, digest))


def _lost(part: KeptPart, *, missing: bool, attempt: int) -> ToolFailure:
    found = "is not in the store" if missing else "has changed in the store"
    return ToolFailure.of(
        ErrorCategory.FILESYSTEM,
        f"A part of the input, {part.size_bytes} bytes with the digest {part.sha256[:12]}, {found}.",
        "Call again. Operators: every API and worker process has to use the same store (OUTLAST_STORE_URL).",
        retryable=attempt < PATIENT_ATTEMPTS,
    )


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()
