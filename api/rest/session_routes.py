"""`/v1/sessions`: what happens in a conversation."""

from typing import Annotated

from fastapi import APIRouter, Header, Path, Response
from fastapi.responses import StreamingResponse

from api.rest.dependencies import CallerDep, ServicesDep
from api.rest.event_stream import event_stream
from api.rest.problems import documented_problems

router = APIRouter(prefix="/v1/sessions", tags=["sessions"])

SessionId = Annotated[str, Path(min_length=1, max_length=200, description="The `session_id` of its calls.")]


@router.get(
    "/{session_id}/events",
    response_class=StreamingResponse,
    responses={
        200: {"content": {"text/event-stream": {}}, "description": "Server-sent events until the session ends."},
        204: {"description": "The session has ended, and nothing came after the event named."},
        **documented_problems(400, 401, 404, 503),
    },
)
async def follow_session(
    session_id: SessionId,
    services: ServicesDep,
    caller: CallerDep,
    last_event_id: Annotated[str | None, Header(description="Id of the last event received.")] = None,
) -> Response:
    """A conversation's events as they happen.

    `task_completed`: a call has its answer. `update` and `reaction`: what tools say to the user meanwhile. All of them
    have an id and are sent again from any point with `Last-Event-ID`, the latest 200 for certain; `events_missed` says
    how many older ones are not kept any more.
    """
    events = await services.sessions.follow(caller, session_id, after=last_event_id)
    return event_stream(events) if events is not None else Response(status_code=204)
