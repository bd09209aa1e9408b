"""What a call asks of its client, and the client's answers: waited for durably, as long as it takes.

A question has the shape of an MCP input request (2026-07-28, `inputRequests`); older transports carry the same thing.
"""

from collections.abc import Iterable
from datetime import timedelta
from typing import Literal

from pydantic import Field, JsonValue
from temporalio import workflow

from activities.models import Contract
from workflows import memo, search_attributes
from workflows.models import TaskStatus

JsonObject = dict[str, JsonValue]


InputMethod = Literal["elicitation/create", "sampling/createMessage", "roots/list"]
"""Whom the question is for: the client's user (a form), the client's model, or the client itself (its roots)."""


class InputRequest(Contract):
    """One question to the client (MCP `inputRequests`)."""

    method: InputMethod = "elicitation/create"
    message: str = Field(description="The question, as a person reads it.")
    requested_schema: JsonObject = Field(default_factory=dict, description="JSON Schema of the answer's content.")
    params: JsonObject = Field(default_factory=dict, description="Parameters of the methods that show no form.")

    @classmethod
    def completion(cls, prompt: str, *, max_tokens: int) -> "InputRequest":
        """Have the client's model answer `prompt` (MCP `sampling/createMessage`)."""
        message: JsonObject = {"role": "user", "content": {"type": "text", "text": prompt}}
        params: JsonObject = {"messages": [message], "maxTokens": max_tokens}
        return cls(method="sampling/createMessage", message=prompt, params=params)

    @classmethod
    def roots(cls) -> "InputRequest":
        """Have the client say which folders it works on (MCP `roots/list`)."""
        return cls(method="roots/list", message="Which folders does the client work on?")


class InputAnswer(Contract):
    """The client's answer to one question (MCP `ElicitResult`; of other methods the whole result is the content)."""

    action: Literal["accept", "decline", "cancel"] = "accept"
    content: JsonObject = Field(default_factory=dict)


class SubmitInput(Contract):
    """Answers by the key of their question."""

    answers: dict[str, InputAnswer]


class InputRequests(Contract):
    """The questions that are open, by key. In the task's memo, so that they are readable without a worker."""

    requests: dict[str, InputRequest] = Field(default_factory=dict)


class Inputs:
    """Open questions of one call."""

    def __init__(self) -> None:
        """Nothing is asked yet."""
        self._open: dict[str, InputRequest] = {}
        self._answers: dict[str, InputAnswer] = {}

    async def ask(
        self, questions: dict[str, InputRequest], *, timeout: timedelta | None = None
    ) -> dict[str, InputAnswer]:
        """The answers to `questions`, when every one has come. Raises `TimeoutError` after `timeout`."""
        for key in questions:
            self._answers.pop(key, None)
        self._open.update(questions)
        self._publish()
        try:
            await workflow.wait_condition(lambda: all(key in self._answers for key in questions), timeout=timeout)
        finally:
            self._close(questions)
        return {key: self._answers[key] for key in questions}

    def refuse(self, submitted: SubmitInput) -> str | None:
        """Why these answers cannot be taken, or None when they can."""
        unknown = sorted(key for key in submitted.answers if key not in self._open)
        if unknown:
            return f"Nothing is asked under {', '.join(unknown)}; open questions: {', '.join(self._open) or 'none'}."
        return None

    def take(self, submitted: SubmitInput) -> None:
        """Record answers; the first answer to a question stands."""
        for key, answer in submitted.answers.items():
            self._answers.setdefault(key, answer)
            self._open.pop(key, None)
        self._publish()

    def _close(self, keys: Iterable[str]) -> None:
        """Take questions back that nobody answered."""
        given_up = [key for key in keys if self._open.pop(key, None) is not None]
        if given_up:
            self._publish()

    def _publish(self) -> None:
        status = TaskStatus.INPUT_REQUIRED if self._open else TaskStatus.WORKING
        workflow.upsert_memo({memo.INPUT_REQUESTS: InputRequests(requests=dict(self._open))})
        search_attributes.upsert(search_attributes.TASK_STATUS.value_set(status.value))
