"""How long a front door waits for the answer of a call, and what the argument that changes it is like."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class WaitRule:
    """The wait for tools whose calls may take long. The argument is the front door's: no workflow sees it."""

    default_seconds: float = 45
    max_seconds: int | None = None
    """The longest wait that the argument may ask for; None: the server's own limit."""
    kind: Literal["number", "integer"] = "number"
    description: str = "Seconds to wait for the result. The call goes on when they are over: collect it with get-task."
    replaces: bool = False
    """Whether it takes the place of a field of that name in an Actor's own input; else such a tool has no argument."""
    of_servers: bool = True
    """Whether tools of Actors that are MCP servers have the argument; else their schemas are those of the servers."""
    other_seconds: float = 45
    """How long other tools are waited for, whose calls take seconds."""


STANDARD_WAIT = WaitRule()
