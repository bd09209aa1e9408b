"""Types of the ids and names that callers and models send. Each has a maximum length, checked before anything starts.

An address with a longer one is refused by servers, or breaks the connection, which would be tried again for ever.
"""

import string
from typing import Annotated

from pydantic import StringConstraints

MAX_ID_CHARS = 200

Id = Annotated[str, StringConstraints(min_length=1, max_length=MAX_ID_CHARS)]
"""An id or a name: of a run, an Actor, a task, a question, a provider, a model. Storages have `StorageId`."""
Token = Annotated[str, StringConstraints(max_length=4_096)]
"""A token of ours, such as that of a next page."""
_AROUND = string.whitespace + "\"'`"


def unquoted(value: object) -> str:
    """An id or a name without the quotes and blanks that models put around it."""
    return str(value).strip(_AROUND)
