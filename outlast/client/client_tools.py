"""The client's part of tools: what `outlast client --tools-from` runs when a call hands over to the user's machine."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import JsonValue

from outlast.contracts.handoffs import OpenHandoff

DEFAULT_TIMEOUT_SECONDS = 300.0


class NoAnswer(Exception):
    """Raised by a client tool that gives no answer: the user declines or closes the question, or the tool fails.

    The message, of at most 500 characters, is sent to the server.
    """

    def __init__(self, message: str = "", *, action: Literal["decline", "cancel", "error"] = "error") -> None:
        """Say why there is no answer."""
        super().__init__(message)
        self.message = message
        self.action: Literal["decline", "cancel", "error"] = action


@dataclass(frozen=True)
class ClientTool:
    """The client's part of one tool: it answers the hand-offs of one client phase."""

    tool: str
    """Name of the tool."""
    phase: str
    """Name of its `ClientPhase`."""
    run: Callable[[OpenHandoff], Awaitable[Any]]
    """From the hand-off to the answer: a dict, or a pydantic model. Raises `NoAnswer` when there is none."""
    sends: str | Callable[[Mapping[str, JsonValue]], str]
    """Data that leaves the machine, shown to the user; a function makes it from the parameters."""
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    """Time limit of one run."""

    def __post_init__(self) -> None:
        """Check the parts. Raises `ValueError`."""
        if not self.tool or not self.phase:
            raise ValueError("A client tool needs the names of its tool and its phase.")
        if self.timeout_seconds <= 0:
            raise ValueError(f"Client tool {self.tool!r}: give a timeout_seconds above zero.")

    def sends_for(self, parameters: Mapping[str, JsonValue]) -> str:
        """Description of the data that leaves the machine in a call with these parameters."""
        return self.sends if isinstance(self.sends, str) else self.sends(parameters)
