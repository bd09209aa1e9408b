"""Types of ids and names from callers and models, with a maximum length that is checked before anything starts.

Servers reject an address with a longer one, or it breaks the connection, which would be retried forever.
"""

import hashlib
import json
import re
import string
from typing import Annotated

from pydantic import StringConstraints

MAX_ID_CHARS = 200

Id = Annotated[str, StringConstraints(min_length=1, max_length=MAX_ID_CHARS)]
"""Id or name of a run, an Actor, a task, a question, a provider, a model. Storages have `StorageId`."""
Token = Annotated[str, StringConstraints(max_length=4_096)]
"""Token of this server, for example of a next page."""
_AROUND = string.whitespace + "\"'`"


def unquoted(value: object) -> str:
    """Return an id or a name without the quotes and blanks that models put around it."""
    return str(value).strip(_AROUND)


_READABLE_CHARS = 40


def derived_task_id(tool: str, *parts: str | int | None) -> str:
    """Return the id of a task that a workflow starts: always the same for the same `parts`, and readable."""
    readable = re.sub(r"[^A-Za-z0-9_-]+", "-", tool)[:_READABLE_CHARS].strip("-")
    return f"{readable or 'call'}-{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:20]}"
