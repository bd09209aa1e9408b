"""Passes the progress and the questions of an Actor's MCP server on to the caller while the tool runs.

Progress goes with the heartbeats, which add nothing to the history. Questions go to the workflow, which asks its own
client. The session with the server ends with this activity: later answers are lost.
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

from outlast.activities.cancelled_updates import raise_cancellation
from outlast.activities.failures.classify import redact
from outlast.activities.heartbeat import Heartbeats
from outlast.activities.mcp_actors.contracts import (
    RELAY_UPDATE,
    CallPhase,
    CallProgress,
    RelayedAnswer,
    RelayedQuestion,
)
from outlast.activities.pacing import Looks

_MAX_MESSAGE_CHARS = 500
_OUTAGES = frozenset({RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.UNKNOWN})
_OUTAGE_PAUSE_SECONDS = 1.0
_outage_pauses = Looks(per_second=50)
_MAX_ROUNDS = 50
"""How often one call may ask for input (MCP 2026-07-28)."""
_ROUND_PAUSE_SECONDS = 0.25


class Relay:
    """Callbacks of one session, for the call that the current activity makes."""

    def __init__(self, heartbeats: Heartbeats) -> None:
        """Report progress with `heartbeats`."""
        self._heartbeats = heartbeats
        self._numbers = itertools.count(1)

    def sent(self) -> None:
        """Report that the call is being sent: a later attempt must not send it again."""
        self._heartbeats.send(CallPhase(sent=True))

    async def progressed(self, progress: float, total: float | None, message: str | None) -> None:
        """Report `notifications/progress` of the call."""
        shown = message or (f"{progress:g} of {total:g}" if total else f"{progress:g}")
        reached = CallProgress(done=progress, total=total, message=redact(shown)[:_MAX_MESSAGE_CHARS])
        self._heartbeats.send(CallPhase(sent=True, progress=reached))

    async def elicit(
        self,
        context: ClientRequestContext,  # noqa: ARG002  # the SDK gives it by name
        params: ElicitRequestParams,
    ) -> ElicitResult | ErrorData:
        """`elicitation/create`: a form for the user. URLs to visit are declined, since they cannot be passed on."""
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
        answer = await self._ask("sampling/createMessage", "The server asks for a completion.", params=fields)
        if isinstance(answer, ErrorData):
            return answer
        if answer.action != "accept":
            return ErrorData(code=INVALID_REQUEST, message="No completion: the caller declined or did not answer.")
        try:
            return CreateMessageResult.model_validate(answer.content, by_name=False)
        except ValidationError:
            return ErrorData(code=INTERNAL_ERROR, message="The caller's completion is not valid.")

    async def _ask(self, method: Any, message: str, **question: Any) -> RelayedAnswer | ErrorData:
        asked = RelayedQuestion(key=f"relayed-{next(self._numbers)}", method=method, message=message, **question)
        while True:
            try:
                return await _ask_workflow(asked)
            except WorkflowUpdateFailedError as error:
                return ErrorData(code=INTERNAL_ERROR, message=redact(f"The caller cannot be asked: {error.cause}"))
            except WorkflowUpdateRPCTimeoutOrCancelledError as error:
                raise_cancellation(error)
            except RPCError as error:
                if error.status not in _OUTAGES:
                    return ErrorData(code=INTERNAL_ERROR, message="The caller cannot be asked: its task has ended.")
            await _outage_pauses.pause(_OUTAGE_PAUSE_SECONDS)


async def _ask_workflow(question: RelayedQuestion) -> RelayedAnswer:
    """Ask the question once, however often an attempt calls this: the update's id contains the question's key."""
    info = activity.info()
    handle = activity.client().get_workflow_handle(info.workflow_id or "", run_id=info.workflow_run_id)
    update_id = f"{info.activity_id}-{info.attempt}-{question.key}"
    return await handle.execute_update(  # pyright: ignore[reportUnknownMemberType]  # the SDK leaves a type open
        RELAY_UPDATE, question, id=update_id, result_type=RelayedAnswer
    )


class _RawAnswer(BaseModel):
    """The unparsed result: all its fields are in `model_extra`."""

    model_config = ConfigDict(extra="allow")


async def call_to_its_end(session: ClientSession, tool: str, arguments: dict[str, Any], relay: Relay) -> dict[str, Any]:
    """The raw result of a tool. With MCP 2026-07-28, a tool that asks for input is called again with the answers."""
    params = CallToolRequestParams(name=tool, arguments=arguments)
    raw: dict[str, Any] = {}
    for _ in range(_MAX_ROUNDS):
        request = CallToolRequest(params=params)
        answer = await session.send_request(request, _RawAnswer, progress_callback=relay.progressed)
        raw = answer.model_extra or {}
        if raw.get("resultType") != "input_required":
            break
        asked = InputRequiredResult.model_validate(raw, by_name=False)
        answers = await _input_responses(session, asked)
        params = params.model_copy(update={"input_responses": answers, "request_state": asked.request_state})
    return raw


async def _input_responses(session: ClientSession, asked: InputRequiredResult) -> dict[str, InputResponse] | None:
    if not asked.input_requests:
        await asyncio.sleep(_ROUND_PAUSE_SECONDS)  # the server only wants the call again
        return None
    requests = asked.input_requests
    given = await asyncio.gather(*(_input_response(session, key, request) for key, request in requests.items()))
    return dict(zip(requests, given, strict=True))


async def _input_response(session: ClientSession, key: str, request: InputRequest) -> InputResponse:
    """The answer of the session's callbacks, which also serve servers of earlier protocol versions."""
    meta = request.params.meta if request.params else None
    context = ClientRequestContext(session=session, request_id=key, meta=meta)
    answer = await session.dispatch_input_request(context, request)
    if isinstance(answer, ErrorData):
        raise MCPError.from_error_data(answer)
    return answer
