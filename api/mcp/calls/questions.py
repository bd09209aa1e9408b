"""Questions of a task to its client, in the words of each era."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, cast

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import INVALID_PARAMS
from pydantic import TypeAdapter

from outlast.activities.contracts import Caller
from outlast.activities.failures.contracts import ErrorEnvelope
from outlast.api.errors import AnswerNotTaken, InvalidCall, TaskFinished
from outlast.api.mcp.protocol.eras import Context, can_be_asked
from outlast.api.mcp.protocol.forms import from_form
from outlast.api.mcp.protocol.task_shapes import handoffs_meta, input_request
from outlast.api.tasks.client import TaskClient
from outlast.workflows.contracts.questions import InputAnswer, InputRequest

RELATED_TASK_META = "io.modelcontextprotocol/related-task"
Questions = Mapping[str, InputRequest]

_TRIES = 3
"""How often in a row a question is put to a client whose answers do not fit; then the task says what it asks."""
_MARK = " (Not taken: "

_REQUEST: TypeAdapter[Any] = TypeAdapter(types.ElicitRequest | types.CreateMessageRequest | types.ListRootsRequest)
_RESULTS: Mapping[str, type[types.Result]] = {
    "elicitation/create": types.ElicitResult,
    "sampling/createMessage": types.CreateMessageResult,
    "roots/list": types.ListRootsResult,
}


def answerable(ctx: Context, questions: Questions | None) -> dict[str, InputRequest]:
    """The questions that this client's user or model can be asked: those of capabilities that it has declared."""
    return {
        key: question
        for key, question in (questions or {}).items()
        if can_be_asked(ctx, question.method) and not question.is_for_program
    }


def parsed_answers(responses: Mapping[str, Any], asked: Questions) -> dict[str, InputAnswer]:
    """Those of the wire's `inputResponses` that answer what is asked; others are ignored.

    Raises -32602 for what is no result of the question's method.
    """
    return {key: _answer(asked[key], response) for key, response in responses.items() if key in asked}


async def ask_client(ctx: Context, tasks: TaskClient, caller: Caller, task_id: str, questions: Questions) -> None:
    """MCP 2025-11-25: put each question to the client as a request of its own, and submit its answer.

    An answer that does not fit is asked for again, with what was wrong; when somebody else was quicker, the task says
    what it asks now.
    """
    for key, question in questions.items():
        await _ask_until_it_fits(ctx, tasks, caller, task_id, {key: question})


async def client_answer(ctx: Context, question: InputRequest, meta: Mapping[str, Any] | None = None) -> InputAnswer:
    """MCP 2025-11-25: what the client answers to one question, put to it as a request of its own."""
    asked = input_request(question)
    if meta:
        asked["params"] = {**asked["params"], "_meta": dict(meta)}
    request = _REQUEST.validate_python(asked, by_name=False)
    result = await ctx.session.send_request(
        request, _RESULTS[question.method], metadata=ServerMessageMetadata(related_request_id=ctx.request_id)
    )
    return _answer(question, result)


async def _ask_until_it_fits(ctx: Context, tasks: TaskClient, caller: Caller, task_id: str, asked: Questions) -> None:
    ((key, question),) = asked.items()
    meta = {**handoffs_meta(asked), RELATED_TASK_META: {"taskId": task_id}}
    for _ in range(_TRIES):
        answer = await client_answer(ctx, question, meta)
        try:
            with suppress(AnswerNotTaken, TaskFinished):
                await tasks.submit_input(caller, task_id, {key: answer})
        except InvalidCall as error:
            question = question.model_copy(update={"message": _again(question, error.envelope)})
        else:
            return


def _again(question: InputRequest, error: ErrorEnvelope) -> str:
    """The question once more, with what was wrong with the answer."""
    wrong = "; ".join(violation.message for violation in error.violations or ()) or error.message
    return f"{question.message.partition(_MARK)[0]}{_MARK}{wrong})"


def _answer(question: InputRequest, response: Any) -> InputAnswer:
    plain = _plain(response)
    if question.method != "elicitation/create":
        return InputAnswer(content=plain)
    try:
        content: dict[str, Any] = plain.get("content") or {}
        if question.handoff is not None:
            content = from_form(question.requested_schema, content)
        return InputAnswer.model_validate({"action": plain.get("action"), "content": content})
    except ValueError as error:
        raise MCPError(INVALID_PARAMS, "The answer to a form must be an ElicitResult: action, and content.") from error


def _plain(response: Any) -> dict[str, Any]:
    if isinstance(response, dict):
        return cast(dict[str, Any], response)
    if isinstance(response, types.Result):
        return response.model_dump(mode="json", by_alias=True, exclude_none=True)
    raise MCPError(INVALID_PARAMS, "Each input response must be an object.")
