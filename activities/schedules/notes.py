"""The notes of Temporal Schedules: a code that anybody may read, and words that are encrypted where histories are.

Temporal keeps the note of a schedule as plain text, in its database and in backups of it. The words of a caller, or of
a failure, are a payload in it.

    paused-by-caller                          without words
    paused-by-caller "holidays"               encryption is off
    paused-by-caller enc:CiIKCGVuY29kaW5n...  a payload of Temporal, encrypted and in base64
"""

import base64
import json
from enum import StrEnum

from google.protobuf.message import DecodeError
from temporalio.api.common.v1 import Payload
from temporalio.converter import DataConverter

from outlast.activities.secrets.encryption import ContentDamaged, ContentKeyMissing

_MARK = "enc:"
_PLAIN = b"json/plain"


class NoteCode(StrEnum):
    """The reason for the state of a schedule."""

    PAUSED_BY_CALLER = "paused-by-caller"
    PAUSED_BY_FIRING = "paused-by-firing"
    PAUSED_WHEN_MADE = "paused-when-made"
    RESUMED = "resumed-by-caller"


_WITHOUT_WORDS = {
    NoteCode.PAUSED_BY_CALLER: "Paused.",
    NoteCode.PAUSED_BY_FIRING: "Paused by the outcome of a firing.",
    NoteCode.PAUSED_WHEN_MADE: "Paused since it was made.",
    NoteCode.RESUMED: "Resumed.",
}


async def written_note(code: NoteCode, words: str | None, converter: DataConverter) -> str:
    """Return the note with these `words`, encrypted as `converter` encrypts what enters a history."""
    if words is None:
        return code.value
    (payload,) = await converter.encode([words])
    if payload.metadata.get("encoding") == _PLAIN:
        return f"{code} {json.dumps(words, ensure_ascii=False)}"
    return f"{code} {_MARK}{base64.b64encode(payload.SerializeToString()).decode()}"


async def read_note(note: str | None, converter: DataConverter) -> str | None:
    """The words of a note; of one that Outlast has not written, the note. None for an empty one. Words that cannot be
    decrypted, or that were changed in Temporal, are replaced by those of the code.
    """
    if not note:
        return None
    code, _, words = note.partition(" ")
    if code not in _WITHOUT_WORDS:
        return note
    default = _WITHOUT_WORDS[NoteCode(code)]
    try:
        if not words.startswith(_MARK):
            return str(json.loads(words)) if words else default
        payload = Payload.FromString(base64.b64decode(words.removeprefix(_MARK), validate=True))
        (decoded,) = await converter.decode([payload], [str])
    except (ValueError, DecodeError, RuntimeError, ContentDamaged, ContentKeyMissing):
        return default
    return str(decoded)
