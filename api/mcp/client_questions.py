"""Questions of a task to the MCP client: selection, sending, and parsing of answers."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, cast

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED, INVALID_PARAMS
from pydantic import TypeAdapter

from outlast.activities.contracts import ErrorEnvelope, JsonObject
from outlast.activities.unicode_text import printable
from outlast.api.access.policy.contracts import Scope
from outlast.api.access.principal import Principal
from outlast.api.audit.records import current_origin, served_from
from outlast.api.errors import AnswerNotTaken, InvalidCall, TaskFinished
from outlast.api.mcp.connections import OpenExchanges, Question, Sender, place_of
from outlast.api.mcp.protocol.task_shapes import RELATED_TASK_META, from_form, handoffs_meta, input_request
from outlast.api.mcp.protocol.versions import Context, supports_question
from outlast.api.tasks.client import TaskClient
from outlast.api.tasks.submitted_input import answering_scope
from outlast.api.temporal.resolutions import is_outcome_unknown
from outlast.contracts.tasks import ResolveRequest, TaskAnswer
from outlast.workflows.contracts.questions import MAX_REASON_CHARS, Handoff, InputAnswer, InputRequest

Questions = Mapping[str, InputRequest]

OUTCOME_KEY = "outcome"
_MAX_NOTE_CHARS = 1_000
_OUTCOME_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "outcome": {
            "type": "string",
            "title": "Was it executed?",
            "description": "done: it was. not_done: it was not. retry: call the tool again.",
            "enum": ["done", "not_done", "retry"],
        },
        "note": {"type": "string", "title": "Note", "maxLength": _MAX_NOTE_CHARS},
    },
    "required": ["outcome"],
}
_MAX_ATTEMPTS = 3
"""Attempts at the same question while the answers are invalid."""
_REJECTED = " (Your last answer was invalid: "

_REQUEST: TypeAdapter[Any] = TypeAdapter(types.ElicitRequest | types.CreateMessageRequest | types.ListRootsRequest)
_RESULTS: Mapping[str, type[types.Result]] = {
    "elicitation/create": types.ElicitResult,
    "sampling/createMessage": types.CreateMessageResult,
    "roots/list": types.ListRootsResult,
}


def answerable(
    ctx: Context, questions: Questions | None, principal: Principal | None = None
) -> dict[str, InputRequest]:
    """Select the questions that this client can be sent: it declares the capability, and no special program, other
    caller or (with `principal`) other scope is needed.
    """
    return {
        key: question
        for key, question in (questions or {}).items()
        if supports_question(ctx, question.method)
        and not question.is_for_program
        and not question.approvers
        and (principal is None or answering_scope(question) in principal.scopes)
    }


def parsed_answers(responses: Mapping[str, Any], questions: Questions) -> dict[str, InputAnswer]:
    """Parse the `inputResponses` that answer one of `questions`; others are ignored. Raises -32602."""
    return {key: _parsed_answer(questions[key], response) for key, response in responses.items() if key in questions}


def outcome_questions(ctx: Context, principal: Principal, answer: TaskAnswer) -> dict[str, InputRequest]:
    """Return the question for a call with an unknown outcome, by its key; empty if the client cannot answer it.

    As an approval, it is for a person, and needs the scope `approve`.
    """
    if answer.result is None or not is_outcome_unknown(answer.result):
        return {}
    error = answer.result.error
    assert error is not None
    maker = principal.caller.id
    question = InputRequest(
        message=printable(f"{error.message} Find out whether it was executed before you answer."),
        requested_schema=_OUTCOME_SCHEMA,
        handoff=Handoff(kind="approval", tool=answer.task.tool, phase=OUTCOME_KEY, maker=maker),
    )
    return answerable(ctx, {OUTCOME_KEY: question}, principal)


def resolution_in(answer: InputAnswer) -> ResolveRequest | None:
    """Return what the user found out; None if the answer does not say it."""
    outcome, note = answer.content.get("outcome"), answer.content.get("note")
    if answer.action != "accept" or outcome not in ("done", "not_done", "retry"):
        return None
    note = note[:_MAX_NOTE_CHARS] if isinstance(note, str) and note.strip() else None
    return ResolveRequest(outcome=outcome, note=note)


class ClientQuestions:
    """Questions to clients of MCP 2025-11-25: requests of the server, whose responses answer them."""

    def __init__(self, tasks: TaskClient, exchanges: OpenExchanges) -> None:
        self._tasks = tasks
        self._exchanges = exchanges

    async def ask_for_task(self, ctx: Context, principal: Principal, task_id: str, questions: Questions) -> None:
        """Send each question to the client of a call, and submit its answer to the task.

        After an invalid answer the question is repeated with the reason; after three, the task gets a failure. Answers
        later than those of others are ignored.
        """
        for key, question in questions.items():
            await self._ask_until_valid(ctx, principal, task_id, {key: question})

    async def ask(
        self, ctx: Context, principal: Principal, question: InputRequest, meta: Mapping[str, Any] | None = None
    ) -> InputAnswer:
        """Send one question, which is about no task, to the client of a request of `principal`. Returns its answer."""
        with self._asking(ctx, principal, "read") as asking:
            return _parsed_answer(question, await asking.result_of(ctx, question, meta))

    async def ask_outcome(self, ctx: Context, principal: Principal, question: InputRequest) -> InputAnswer | None:
        """Ask the client's user whether a call was executed. Returns None if the client does not answer."""
        with self._asking(ctx, principal, answering_scope(question)) as asking:
            try:
                return _parsed_answer(question, await asking.result_of(ctx, question, handoffs_meta({"": question})))
            except (MCPError, ValueError):
                return None

    async def _ask_until_valid(self, ctx: Context, principal: Principal, task_id: str, asked: Questions) -> None:
        ((key, question),) = asked.items()
        meta = {**handoffs_meta(asked), RELATED_TASK_META: {"taskId": task_id}}
        sender = Sender(principal, current_origin())
        for _ in range(_MAX_ATTEMPTS):
            with self._asking(ctx, principal, answering_scope(question)) as asking:
                answer = await _answer_or_failure(ctx, asking, question, meta)
                # The credential that has answered counts, and is recorded: not the one that has called.
                sender = asking.question.answered_by or sender
            try:
                await self._submit(sender, task_id, {key: answer})
            except InvalidCall as error:
                question = question.model_copy(update={"message": _message_with_reason(question, error.envelope)})
            else:
                return
        failed = InputAnswer(action="error", message=f"It gave {_MAX_ATTEMPTS} answers that do not fit.")
        await self._submit(sender, task_id, {key: failed})

    async def _submit(self, sender: Sender, task_id: str, answers: dict[str, InputAnswer]) -> None:
        with served_from(sender.origin), suppress(AnswerNotTaken, TaskFinished):
            await self._tasks.submit_input(sender.principal, task_id, answers)

    @contextmanager
    def _asking(self, ctx: Context, principal: Principal, scope: Scope) -> Generator["_Asking"]:
        place = place_of(ctx, principal)
        assert place is not None, "only connections of 2025-11-25 can be asked"
        with self._exchanges.question(place, scope) as (question_id, question):
            yield _Asking(question_id, question)


@dataclass(frozen=True)
class _Asking:
    """A question while it is open."""

    id: int
    question: Question

    async def result_of(self, ctx: Context, asked: InputRequest, meta: Mapping[str, Any] | None) -> types.Result:
        """The client's response. Raises `MCPError` for an error, and `ValidationError` for one of another form."""
        message = input_request(asked)
        if meta:
            message["params"] = {**message["params"], "_meta": dict(meta)}
        request = _REQUEST.validate_python(message, by_name=False)
        data = request.model_dump(by_alias=True, mode="json", exclude_none=True)
        # The SDK's `send_request` chooses the id itself, and does not return it before the response.
        outbound = ctx.session._request_outbound  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        result = await outbound.send_raw_request(data["method"], data.get("params"), {"request_id": self.id})
        return _RESULTS[asked.method].model_validate(result, by_name=False)


async def _answer_or_failure(
    ctx: Context, asking: _Asking, question: InputRequest, meta: Mapping[str, Any]
) -> InputAnswer:
    """Return the client's answer. A JSON-RPC error to a hand-off is an answer too, after which the task continues."""
    try:
        return _parsed_answer(question, await asking.result_of(ctx, question, meta))
    except MCPError as error:
        is_handoff = question.handoff is not None and question.handoff.kind == "client"
        if not is_handoff or error.error.code == CONNECTION_CLOSED:
            raise
        return InputAnswer(action="error", message=error.error.message[:MAX_REASON_CHARS])


def _message_with_reason(question: InputRequest, error: ErrorEnvelope) -> str:
    """Return the question's message, and why the last answer was invalid."""
    reasons = "; ".join(violation.message for violation in error.violations or ()) or error.message
    return f"{question.message.partition(_REJECTED)[0]}{_REJECTED}{reasons})"


def _parsed_answer(question: InputRequest, response: Any) -> InputAnswer:
    result = _result_dict(response)
    if question.method != "elicitation/create":
        return InputAnswer(content=result)
    try:
        content: dict[str, Any] = result.get("content") or {}
        if question.handoff is not None:
            content = from_form(question.requested_schema, content)
        return InputAnswer.model_validate({"action": result.get("action"), "content": content})
    except ValueError as error:
        message = "The answer to a form must be an ElicitResult with `action` and `content`."
        raise MCPError(INVALID_PARAMS, message) from error


def _result_dict(response: Any) -> dict[str, Any]:
    if isinstance(response, dict):
        return cast(dict[str, Any], response)
    if isinstance(response, types.Result):
        return response.model_dump(mode="json", by_alias=True, exclude_none=True)
    raise MCPError(INVALID_PARAMS, "Each input response must be an object.")
