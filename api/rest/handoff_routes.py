"""`/v1/handoffs`: what tasks wait for the caller to do."""

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse
from pydantic import StringConstraints

from outlast.api.http.dependencies import ReaderDep, ServicesDep
from outlast.api.http.event_stream import event_stream
from outlast.api.http.known_parameters import KnownParametersRoute
from outlast.api.http.problems import documented_problems
from outlast.contracts.events import HandoffList

router = APIRouter(prefix="/v1/handoffs", tags=["tasks"], route_class=KnownParametersRoute)

ToolNames = Annotated[
    list[Annotated[str, StringConstraints(min_length=1, max_length=128)]],
    Query(alias="tool", max_length=20, description="Only hand-offs of this tool; repeat it for several."),
]


@router.get("", responses=documented_problems(400, 401, 503))
async def list_handoffs(services: ServicesDep, principal: ReaderDep, tools: ToolNames = []) -> HandoffList:  # noqa: B006
    """Your tasks' open hand-offs and approvals, then others' approvals that wait for you; the newest thousand each."""
    return HandoffList(handoffs=await services.handoffs.open(principal, tools))


@router.get(
    "/events",
    response_class=StreamingResponse,
    responses={
        200: {"content": {"text/event-stream": {}}, "description": "Server-sent events, without an end."},
        **documented_problems(400, 401, 503),
    },
)
async def follow_handoffs(services: ServicesDep, principal: ReaderDep, tools: ToolNames = []) -> StreamingResponse:  # noqa: B006
    """Your tasks' open hand-offs, and others' approvals that wait for you, as events.

    `handoff` for each that is open or opens later, `handoff_closed` for each that was closed. There is nothing to
    resume: a new connection begins with all that are open.
    """
    await services.handoffs.open(principal, tools)  # What can be refused, is refused before the stream begins.
    return event_stream(services.handoffs.follow(principal, tools))
