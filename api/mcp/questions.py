"""Questions of a task to the client's user, in the words of each era."""

from typing import Any, cast

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CallToolRequestParams, InputResponseRequestParams

from activities.models import Caller
from api.mcp.eras import Context
from api.mcp.task_shapes import input_requests
from api.task_models import Task
from api.tasks import TaskClient
from workflows.inputs import InputAnswer, InputRequest


def question_result(task: Task) -> dict[str, Any]:
    """MCP 2026-07-28, `InputRequiredResult`: the client calls again with the answers and this `requestState`."""
    return {
        "resultType": "input_required",
        "inputRequests": input_requests(task.input_requests or {}),
        "requestState": task.id,
    }


def answers_from(
    params: CallToolRequestParams | InputResponseRequestParams,
) -> tuple[str | None, dict[str, InputAnswer]]:
    """The task whose questions are answered, and the answers. The task's owner is checked when they are submitted."""
    responses = params.input_responses
    if responses is None or params.request_state is None:
        return None, {}
    return params.request_state, parsed_answers(cast(dict[str, Any], responses))


def parsed_answers(responses: dict[str, Any]) -> dict[str, InputAnswer]:
    """`inputResponses` of the wire. Raises -32602 for what is no `ElicitResult`."""
    try:
        return {key: InputAnswer.model_validate(_plain(response)) for key, response in responses.items()}
    except ValueError as error:
        raise MCPError(INVALID_PARAMS, "Each input response must be an ElicitResult: action, and content.") from error


async def ask_client(
    ctx: Context, tasks: TaskClient, caller: Caller, task_id: str, questions: dict[str, InputRequest]
) -> None:
    """MCP 2025-11-25: put each question to the client with `elicitation/create`, and submit its answer."""
    for key, question in questions.items():
        answer = await ctx.session.elicit_form(
            question.message, cast(Any, question.requested_schema), related_request_id=ctx.request_id
        )
        submitted = InputAnswer(action=answer.action, content=cast(Any, answer.content) or {})
        await tasks.submit_input(caller, task_id, {key: submitted})


def _plain(response: Any) -> Any:
    plain: dict[str, Any] = (
        cast(dict[str, Any], response)
        if isinstance(response, dict)
        else response.model_dump(mode="json", by_alias=True)
    )
    return {"action": plain.get("action", "accept"), "content": plain.get("content") or {}}
