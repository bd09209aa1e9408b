"""An answer given on the command line."""

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from outlast.cli.ask.arguments import read_arguments
from outlast.cli.errors import BadInput, CliError, ExitCode

if TYPE_CHECKING:
    from outlast.client import Task


@dataclass(frozen=True, slots=True)
class Given:
    """The options of `outlast tasks answer`."""

    source: str | None
    pairs: list[str]
    key: str | None
    decision: str | None
    note: str | None
    decline: bool

    @property
    def says_something(self) -> bool:
        """Whether they contain an answer. Raises `BadInput` if not, and there is no terminal to ask on."""
        if self.source is not None or self.pairs or self.decision or self.decline:
            return True
        if not sys.stdin.isatty():
            raise BadInput("There is no answer.", hint="Give --yes, --no, --decline, JSON, or -a name=value.")
        return False

    def answer(self) -> dict[str, Any]:
        """The answer in the form of the API. Raises `BadInput`."""
        if self.decline:
            return {"action": "decline"}
        content = read_arguments(self.source, self.pairs)
        if self.decision:
            content["decision"] = self.decision
        if self.note:
            content["note"] = self.note
        return {"action": "accept", "content": content}


def question_key(task: "Task", given: Given) -> str:
    """The key of the question to answer. Raises `CliError` when none is open, `BadInput` when several are."""
    asked = list(task.input_requests or {})
    if given.key is not None:
        return given.key
    if not asked:
        raise CliError(f"Task {task.id} asks nothing: it is {task.status}.", exit_code=ExitCode.USAGE)
    if len(asked) > 1:
        raise BadInput(f"Task {task.id} asks several things.", hint=f"Name one with --key: {', '.join(asked)}.")
    return asked[0]
