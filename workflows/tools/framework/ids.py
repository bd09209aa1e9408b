"""Types of ids and names from callers and models, with a maximum length that is checked before anything starts.

Servers reject an address with a longer one, or it breaks the connection, which would be retried forever.
"""

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
