"""Questions of a call to its client, and the client's answers.

A question has the shape of an MCP input request (2026-07-28, `inputRequests`); older transports carry the same thing.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from outlast.activities.contracts import OPEN, Contract, JsonObject, Violation
from outlast.activities.unicode_text import ValidObject, ValidText
from outlast.workflows.contracts.unknown_fields import KnownFieldsOnly

InputMethod = Literal["elicitation/create", "sampling/createMessage", "roots/list"]
"""Whom the question is for: the client's user (a form), the client's model, or the client itself (its roots)."""


Audience = Literal["person", "program"]
"""Recipient of a question: a person, at every entry point; or only a program that knows the tool, such as
`outlast client`, for which entry points wait and which no model may pose as."""


class Handoff(Contract):
    """The request that comes with a question: a tool's client phase, or a call that a person must approve."""

    kind: Annotated[Literal["client", "approval"], OPEN] = "client"
    audience: Annotated[Audience, OPEN] = Field(
        default="person", description="Who can answer: a person, or only a program."
    )
    tool: str
    phase: str = Field(description="The phase of the tool that runs on the client; `approval` for an approval.")
    parameters: JsonObject = Field(default_factory=dict, description="The data that the client shows or works with.")
    deadline: datetime | None = Field(default=None, description="When the question closes without an answer.")
    maker: str | None = Field(default=None, description="For an approval: id of the caller that made the call.")
    approvers: tuple[str, ...] = Field(
        default=(), description="Only another caller with all of these roles may answer. Empty: the caller itself."
    )


class InputRequest(Contract):
    """One question to the client (MCP `inputRequests`)."""

    method: Annotated[InputMethod, OPEN] = "elicitation/create"
    message: ValidText = Field(description="The question, for a person.")
    requested_schema: ValidObject = Field(default_factory=dict, description="JSON Schema of the answer's content.")
    params: ValidObject = Field(default_factory=dict, description="Parameters of methods without a form.")
    handoff: Handoff | None = Field(default=None, description="Present when the question hands over the call.")

    @property
    def is_approval(self) -> bool:
        """True if it requests the approval of a call."""
        return self.handoff is not None and self.handoff.kind == "approval"

    @property
    def is_for_program(self) -> bool:
        """True if only a program that knows the tool can answer."""
        return self.handoff is not None and self.handoff.audience == "program"

    @property
    def approvers(self) -> tuple[str, ...]:
        """The roles that another caller needs to answer; empty for a question to the caller itself."""
        return self.handoff.approvers if self.handoff is not None else ()

    @classmethod
    def completion(cls, prompt: str, *, max_tokens: int) -> "InputRequest":
        """Request an answer to `prompt` from the client's model (MCP `sampling/createMessage`)."""
        message: JsonObject = {"role": "user", "content": {"type": "text", "text": prompt}}
        params: JsonObject = {"messages": [message], "maxTokens": max_tokens}
        return cls(method="sampling/createMessage", message=prompt, params=params)

    @classmethod
    def roots(cls) -> "InputRequest":
        """Request the folders that the client works on (MCP `roots/list`)."""
        return cls(method="roots/list", message="Which folders does the client work on?")


MAX_REASON_CHARS = 500


class InputAnswer(Contract):
    """The client's answer to one question (MCP `ElicitResult`; for other methods, the content is the whole result)."""

    action: Literal["accept", "decline", "cancel", "error"] = Field(
        default="accept",
        description="`decline`: the user said no; `cancel`: the user closed the question; `error`: the client failed.",
    )
    content: JsonObject = Field(default_factory=dict)
    message: str | None = Field(
        default=None, max_length=MAX_REASON_CHARS, description="For actions other than `accept`: the reason."
    )


class SubmitInput(Contract):
    """Answers by the key of their question."""

    answers: dict[str, InputAnswer]
    answered_by: str | None = Field(default=None, description="Id of the caller who answers.")


class InputRequests(Contract):
    """The questions that are open, by key. In the task's memo, so that they are readable without a worker."""

    requests: dict[str, InputRequest] = Field(default_factory=dict)


Check = Callable[[JsonObject], tuple[Violation, ...]]
"""Returns the violations in an answer's content, for rules that JSON Schema cannot express."""


TASK_ASKS_SIGNAL = "task_asks"
"""Signal from a tool call to the turn that made it: the call waits for an answer."""


class TaskAsks(Contract):
    """A tool call of a turn waits for an answer, to be given to the task like any other."""

    task_id: str
    requests: dict[str, InputRequest]


APPROVAL_KEY = "approval"
"""Key of the question for an approval, and name of its phase."""


class ApprovalAnswer(KnownFieldsOnly, Contract):
    """An answer to a call that waits for approval."""

    decision: Literal["yes", "no"]
    arguments: JsonObject | None = Field(default=None, description="Other arguments to run with, all of them.")
    note: str | None = Field(default=None, max_length=2_000)


_DECISION: JsonObject = {
    "decision": {"type": "string", "enum": ["yes", "no"], "title": "Decision"},
    "note": {"type": "string", "title": "Note", "maxLength": 2_000, "description": "For the caller to read."},
}
DECISION_SCHEMA: JsonObject = {
    "type": "object",
    "properties": _DECISION,
    "required": ["decision"],
    "additionalProperties": False,
}
"""JSON Schema of another caller's answer, who must not both choose the arguments and approve them."""
