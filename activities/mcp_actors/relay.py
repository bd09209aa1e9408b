"""What an Actor's MCP server says and asks while its tool runs, passed on to whoever has called the tool.

Progress goes with the heartbeats: it costs no history. Questions go to the workflow, which asks its own client. The
server's session lives in this activity, so an answer that comes after the activity has ended finds nobody.
"""

import asyncio
import itertools
from typing import Any

from mcp import ClientSession, MCPError
from mcp.client import ClientRequestContext
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    CallToolRequest,
    CallToolRequestParams,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitResult,
    ErrorData,
    InputRequest,
    InputRequiredResult,
    InputResponse,
)
from pydantic import BaseModel, ConfigDict, ValidationError
from temporalio import activity
from temporalio.client import WorkflowUpdateFailedError, WorkflowUpdateRPCTimeoutOrCancelledError
from temporalio.service import RPCError, RPCStatusCode

from outlast.activities.failures.classify import redact
from outlast.activities.heartbeat import Heartbeats
from outlast.activities.mcp_actors.contracts import (
    RELAY_UPDATE,
    CallPhase,
    CallProgress,
    RelayedAnswer,
    RelayedQuestion,
)

_MAX_MESSAGE_CHARS = 500
_OUTAGES = frozenset({RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.UNKNOWN})
_OUTAGE_PAUSE_SECONDS = 1.0
_MAX_ROUNDS = 50
"""How often a tool may ask and be called again (2026-07-28)."""
_ROUND_PAUSE_SECONDS = 0.25


class Relay:
    """Callbacks of one session, for the call that the current activity makes."""

    def __init__(self, heartbeats: Heartbeats) -> None:
        """Report progress with `heartbeats`."""
        self._heartbeats = heartbeats
        self._numbers = itertools.count(1)

    def sent(self) -> None:
        """The call leaves now: whoever comes after this attempt must not repeat it."""
        self._heartbeats.send(CallPhase(sent=True))

    async def progressed(self, progress: float, total: float | None, message: str | None) -> None:
        """`notifications/progress` of the call."""
        shown = message or (f"{progress:g} of {total:g}" if total else f"{progress:g}")
        reached = CallProgress(done=progress, total=total, message=redact(shown)[:_MAX_MESSAGE_CHARS])
        self._heartbeats.send(CallPhase(sent=True, progress=reached))

    async def elicit(
        self,
        context: ClientRequestContext,  # noqa: ARG002  # the SDK gives it by name
        params: ElicitRequestParams,
    ) -> ElicitResult | ErrorData:
        """`elicitation/create`: a form for the user. Addresses to visit are declined: they cannot be passed on."""
        if not isinstance(params, ElicitRequestFormParams):
            return ElicitResult(action="decline")
        schema: dict[str, Any] = dict(params.requested_schema)
        answer = await self._ask("elicitation/create", params.message, requested_schema=schema)
        if isinstance(answer, ErrorData) or answer.action != "accept":
            return answer if isinstance(answer, ErrorData) else ElicitResult(action=answer.action)
        content: Any = answer.content
        return ElicitResult(action="accept", content=content)

    async def sample(
        self,
        context: ClientRequestContext,  # noqa: ARG002  # the SDK gives it by name
        params: CreateMessageRequestParams,
    ) -> CreateMessageResult | ErrorData:
        """`sampling/createMessage`: a completion by the client's model."""
        fields: dict[str, Any] = params.model_dump(by_alias=True, mode="json", exclude_none=True)
        fields.pop("_meta", None)
        answer = await self._ask("sampling/createMessage", "The server wants a completion.", params=fields)
        if isinstance(answer, ErrorData):
            return answer
        if answer.action != "accept":
            return ErrorData(code=INVALID_REQUEST, message="No completion: the caller has declined, or not answered.")
        try:
            return CreateMessageResult.model_validate(answer.content, by_name=False)
        except ValidationError:
            return ErrorData(code=INTERNAL_ERROR, message="The caller's completion is not one.")

    async def _ask(self, method: Any, message: str, **question: Any) -> RelayedAnswer | ErrorData:
        asked = RelayedQuestion(key=f"relayed-{next(self._numbers)}", method=method, message=message, **question)
        while True:
            try:
                return await _ask_workflow(asked)
            except WorkflowUpdateFailedError as error:
                return ErrorData(code=INTERNAL_ERROR, message=redact(f"The caller cannot be asked: {error.cause}"))
            except WorkflowUpdateRPCTimeoutOrCancelledError as error:
                current = asyncio.current_task()
                if current is not None and current.cancelling():
                    raise asyncio.CancelledError from error  # the Temporal SDK says it with an error of its own
            except RPCError as error:
                if error.status not in _OUTAGES:
                    return ErrorData(code=INTERNAL_ERROR, message="The caller cannot be asked any more.")
            await asyncio.sleep(_OUTAGE_PAUSE_SECONDS)


async def _ask_workflow(question: RelayedQuestion) -> RelayedAnswer:
    """Ask once, however often this is called in one attempt: the update's id is the question's."""
    info = activity.info()
    handle = activity.client().get_workflow_handle(info.workflow_id or "", run_id=info.workflow_run_id)
    update_id = f"{info.activity_id}-{info.attempt}-{question.key}"
    return await handle.execute_update(  # pyright: ignore[reportUnknownMemberType]  # the SDK leaves a type open
        RELAY_UPDATE, question, id=update_id, result_type=RelayedAnswer
    )


class _RawAnswer(BaseModel):
    """The result as it came: whatever its fields, they are in `model_extra`."""

    model_config = ConfigDict(extra="allow")


async def call_to_its_end(session: ClientSession, tool: str, arguments: dict[str, Any], relay: Relay) -> dict[str, Any]:
    """The raw answer of a tool. In the newer era one that asks is called again with the answers, each time it asks."""
    params = CallToolRequestParams(name=tool, arguments=arguments)
    raw: dict[str, Any] = {}
    for _ in range(_MAX_ROUNDS):
        request = CallToolRequest(params=params)
        answer = await session.send_request(request, _RawAnswer, progress_callback=relay.progressed)
        raw = answer.model_extra or {}
        if raw.get("resultType") != "input_required":
            break
        asked = InputRequiredResult.model_validate(raw, by_name=False)
        answers = await _answers(session, asked)
        params = params.model_copy(update={"input_responses": answers, "request_state": asked.request_state})
    return raw


async def _answers(session: ClientSession, asked: InputRequiredResult) -> dict[str, InputResponse] | None:
    if not asked.input_requests:
        await asyncio.sleep(_ROUND_PAUSE_SECONDS)  # the server only wants to be asked again
        return None
    requests = asked.input_requests
    given = await asyncio.gather(*(_answer(session, key, request) for key, request in requests.items()))
    return dict(zip(requests, given, strict=True))


async def _answer(session: ClientSession, key: str, request: InputRequest) -> InputResponse:
    """What the session's callbacks answer; they serve servers of the older era, too."""
    meta = request.params.meta if request.params else None
    context = ClientRequestContext(session=session, request_id=key, meta=meta)
    answer = await session.dispatch_input_request(context, request)
    if isinstance(answer, ErrorData):
        raise MCPError.from_error_data(answer)
    return answer
