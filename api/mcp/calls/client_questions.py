"""Questions of a task to the MCP client: which ones it can be asked, how they are sent, and how answers are read."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, cast

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import CONNECTION_CLOSED, INVALID_PARAMS
from pydantic import TypeAdapter

from outlast.activities.failures.contracts import ErrorEnvelope
from outlast.api.access.principal import Principal
from outlast.api.errors import AnswerNotTaken, InvalidCall, TaskFinished
from outlast.api.mcp.protocol.forms import from_form
from outlast.api.mcp.protocol.task_shapes import RELATED_TASK_META, handoffs_meta, input_request
from outlast.api.mcp.protocol.versions import Context, supports_question
from outlast.api.tasks.client import TaskClient
from outlast.api.tasks.submitted_input import answering_scope
from outlast.workflows.contracts.questions import MAX_REASON_CHARS, InputAnswer, InputRequest

Questions = Mapping[str, InputRequest]

_MAX_ATTEMPTS = 3
"""How often in a row a client is asked the same question while its answers are invalid."""
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
    """The questions of its own tasks that this client can be asked: it declares the capability, and neither a special
    program nor another caller is needed.

    With `principal`, those only that its key may answer.
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
    """The `inputResponses` that answer one of `questions`; all others are ignored.

    Raises -32602 for a response that is not a result of the question's method.
    """
    return {key: _parsed_answer(questions[key], response) for key, response in responses.items() if key in questions}


async def ask_task_questions(
    ctx: Context, tasks: TaskClient, principal: Principal, task_id: str, questions: Questions
) -> None:
    """MCP 2025-11-25: send each question to the client as a request, and submit its answer to the task.

    After an invalid answer the client is asked again, with the reason; a client that gives only invalid answers has
    failed, and the task is informed. An answer that comes after somebody else's is ignored.
    """
    for key, question in questions.items():
        await _ask_until_valid(ctx, tasks, principal, task_id, {key: question})


async def ask_client(ctx: Context, question: InputRequest, meta: Mapping[str, Any] | None = None) -> InputAnswer:
    """MCP 2025-11-25: send one question to the client as a request. Returns its answer."""
    message = input_request(question)
    if meta:
        message["params"] = {**message["params"], "_meta": dict(meta)}
    request = _REQUEST.validate_python(message, by_name=False)
    result = await ctx.session.send_request(
        request, _RESULTS[question.method], metadata=ServerMessageMetadata(related_request_id=ctx.request_id)
    )
    return _parsed_answer(question, result)


async def _ask_until_valid(
    ctx: Context, tasks: TaskClient, principal: Principal, task_id: str, asked: Questions
) -> None:
    ((key, question),) = asked.items()
    meta = {**handoffs_meta(asked), RELATED_TASK_META: {"taskId": task_id}}
    for _ in range(_MAX_ATTEMPTS):
        answer = await _answer_or_failure(ctx, question, meta)
        try:
            with suppress(AnswerNotTaken, TaskFinished):
                await tasks.submit_input(principal, task_id, {key: answer})
        except InvalidCall as error:
            question = question.model_copy(update={"message": _message_with_reason(question, error.envelope)})
        else:
            return
    failed = InputAnswer(action="error", message=f"It gave {_MAX_ATTEMPTS} answers that do not fit.")
    with suppress(AnswerNotTaken, TaskFinished):
        await tasks.submit_input(principal, task_id, {key: failed})


async def _answer_or_failure(ctx: Context, question: InputRequest, meta: Mapping[str, Any]) -> InputAnswer:
    """The client's answer. A JSON-RPC error to a hand-off is an answer too: the client failed, and the task goes on."""
    try:
        return await ask_client(ctx, question, meta)
    except MCPError as error:
        is_handoff = question.handoff is not None and question.handoff.kind == "client"
        if not is_handoff or error.error.code == CONNECTION_CLOSED:
            raise
        return InputAnswer(action="error", message=error.error.message[:MAX_REASON_CHARS])


def _message_with_reason(question: InputRequest, error: ErrorEnvelope) -> str:
    """The question's message, and why the last answer was invalid."""
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
