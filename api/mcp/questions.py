"""Questions of a task to its client, in the words of each era."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, cast

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import INVALID_PARAMS
from pydantic import TypeAdapter

from activities.models import Caller
from api.errors import InvalidCall, TaskFinished
from api.mcp.eras import Context, can_be_asked
from api.mcp.task_shapes import input_request
from api.tasks import TaskClient
from workflows.inputs import InputAnswer, InputRequest

RELATED_TASK_META = "io.modelcontextprotocol/related-task"
Questions = Mapping[str, InputRequest]

_REQUEST: TypeAdapter[Any] = TypeAdapter(types.ElicitRequest | types.CreateMessageRequest | types.ListRootsRequest)
_RESULTS: Mapping[str, type[types.Result]] = {
    "elicitation/create": types.ElicitResult,
    "sampling/createMessage": types.CreateMessageResult,
    "roots/list": types.ListRootsResult,
}


def answerable(ctx: Context, questions: Questions | None) -> dict[str, InputRequest]:
    """The questions that this client can be asked: those of capabilities that it has declared."""
    return {key: question for key, question in (questions or {}).items() if can_be_asked(ctx, question.method)}


def parsed_answers(responses: Mapping[str, Any], asked: Questions) -> dict[str, InputAnswer]:
    """Those of the wire's `inputResponses` that answer what is asked; others are ignored.

    Raises -32602 for what is no result of the question's method.
    """
    return {key: _answer(asked[key], response) for key, response in responses.items() if key in asked}


async def ask_client(ctx: Context, tasks: TaskClient, caller: Caller, task_id: str, questions: Questions) -> None:
    """MCP 2025-11-25: put each question to the client as a request of its own, and submit its answer.

    When somebody else was quicker, or the answer does not fit, the task says what it asks now.
    """
    for key, question in questions.items():
        answer = await client_answer(ctx, question, {RELATED_TASK_META: {"taskId": task_id}})
        with suppress(InvalidCall, TaskFinished):
            await tasks.submit_input(caller, task_id, {key: answer})


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


def _answer(question: InputRequest, response: Any) -> InputAnswer:
    plain = _plain(response)
    if question.method != "elicitation/create":
        return InputAnswer(content=plain)
    try:
        return InputAnswer.model_validate({"action": plain.get("action"), "content": plain.get("content") or {}})
    except ValueError as error:
        raise MCPError(INVALID_PARAMS, "The answer to a form must be an ElicitResult: action, and content.") from error


def _plain(response: Any) -> dict[str, Any]:
    if isinstance(response, dict):
        return cast(dict[str, Any], response)
    if isinstance(response, types.Result):
        return response.model_dump(mode="json", by_alias=True, exclude_none=True)
    raise MCPError(INVALID_PARAMS, "Each input response must be an object.")
