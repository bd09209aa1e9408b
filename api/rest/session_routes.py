"""`/v1/sessions`: conversations, their turns, and what happens in them."""

from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Response
from fastapi.responses import JSONResponse, StreamingResponse

from outlast.api.contracts.sessions import (
    MessagePage,
    MessageRequest,
    Session,
    SessionExport,
    SessionPage,
    SessionRequest,
    SessionTitle,
    Turn,
)
from outlast.api.http.dependencies import CallerDep, ServicesDep
from outlast.api.http.event_stream import event_stream
from outlast.api.http.problems import documented_problems
from outlast.api.http.surrogates import SoundTextRoute
from outlast.api.sessions.carried_outputs import with_outputs
from outlast.api.sessions.collection import MAX_PAGE
from outlast.api.temporal.turn_events import position_of
from outlast.workflows.contracts.turns import TurnStatus

router = APIRouter(prefix="/v1/sessions", tags=["sessions"], route_class=SoundTextRoute)

SessionId = Annotated[str, Path(min_length=1, max_length=200, description="The `session_id` of its calls.")]
TurnId = Annotated[str, Path(min_length=1, max_length=200, description="Id of the turn: the assistant's message.")]
_STREAM: dict[str, Any] = {"content": {"text/event-stream": {}}, "description": "Server-sent events to its end."}


@router.post("", status_code=201, responses=documented_problems(400, 401, 404, 409, 410, 422, 503))
async def begin_session(body: SessionRequest, services: ServicesDep, caller: CallerDep, response: Response) -> Session:
    """Begin a conversation. Its tools are fixed now, so that every turn shows a model the same bytes.

    The same id with the same settings finds the session again. With other settings it is refused (409), unless `update`
    says that the session takes them: then later turns see the new tools.
    """
    session = await services.sessions.create(caller, body)
    response.headers["Location"] = f"/v1/sessions/{session.id}"
    return session


@router.get("", responses=documented_problems(400, 401, 422, 503))
async def list_sessions(
    services: ServicesDep,
    caller: CallerDep,
    page_size: Annotated[int, Query(ge=1, le=MAX_PAGE, description="Sessions per page.")] = 50,
    page_token: Annotated[str | None, Query(description="`next_page_token` of the page before.")] = None,
) -> SessionPage:
    """Your sessions, those first that began last. Works while no worker is alive."""
    return await services.session_collection.list(caller, page_size=page_size, page_token=page_token)


@router.post("/import", status_code=201, responses=documented_problems(400, 401, 404, 409, 410, 422, 503))
async def import_session(body: SessionExport, services: ServicesDep, caller: CallerDep, response: Response) -> Session:
    """Begin a session with a conversation, as `export` gives it. `settings.sessionId` chooses its id.

    Its tools are looked up anew. The outputs of the document are stored for the new session, under new locators, which
    its messages name. Its turns count as having spent nothing, and signed reasoning is not sent to a provider again.
    """
    session = await services.session_collection.import_(caller, body)
    response.headers["Location"] = f"/v1/sessions/{session.id}"
    return session


@router.get("/{session_id}", responses=documented_problems(401, 404, 410, 503))
async def get_session(session_id: SessionId, services: ServicesDep, caller: CallerDep) -> Session:
    """A conversation: its model and tools, what it has used, its latest turns."""
    return await services.sessions.describe(caller, session_id)


@router.patch("/{session_id}", responses=documented_problems(401, 404, 410, 422, 503))
async def rename_session(
    session_id: SessionId, body: SessionTitle, services: ServicesDep, caller: CallerDep
) -> Session:
    """Give a conversation another title."""
    return await services.sessions.rename(caller, session_id, body.title)


@router.delete("/{session_id}", status_code=204, responses=documented_problems(401, 404, 409, 410, 503))
async def delete_session(session_id: SessionId, services: ServicesDep, caller: CallerDep) -> None:
    """Delete a conversation, the stored outputs of its calls, its turns and its tasks. Later requests answer 410.

    Refused (409) while a turn or a task of it runs.
    """
    await services.session_collection.delete(caller, session_id)


@router.get("/{session_id}/messages", responses=documented_problems(400, 401, 404, 410, 422, 503))
async def list_messages(
    session_id: SessionId,
    services: ServicesDep,
    caller: CallerDep,
    page_size: Annotated[int, Query(ge=1, le=MAX_PAGE, description="Messages per page.")] = 50,
    page_token: Annotated[str | None, Query(description="`next_page_token` of the page before.")] = None,
) -> MessagePage:
    """All messages that lead to the latest turn that has ended: first the latest page, then older ones."""
    collection = services.session_collection
    return await collection.messages(caller, session_id, page_size=page_size, page_token=page_token)


@router.get(
    "/{session_id}/export", response_model=SessionExport, responses=documented_problems(401, 404, 410, 422, 503)
)
async def export_session(
    session_id: SessionId,
    services: ServicesDep,
    caller: CallerDep,
    outputs: Annotated[bool, Query(description="Whether the stored outputs that it refers to are included.")] = False,
) -> Response | SessionExport:
    """A conversation as one document: its settings, and the turns that lead to its latest one.

    With `outputs`, the document is at most as large as a request body may be here: outputs that do not fit, or are
    gone, are named in `left_out`.
    """
    exported = await services.session_collection.export(caller, session_id)
    if not outputs:
        return exported
    pieces = with_outputs(exported, services.outputs, caller, services.settings.max_body_bytes)
    return StreamingResponse(pieces, media_type="application/json")


@router.post(
    "/{session_id}/messages",
    response_model=Turn,
    responses={
        200: {
            "model": Turn,
            "description": "The turn's events; with `stream: false` the turn, which has ended.",
        },
        202: {"model": Turn, "description": "The turn still runs; follow it, or ask for it again."},
        **documented_problems(400, 401, 402, 404, 409, 410, 422, 503),
    },
)
async def send_message(
    session_id: SessionId,
    body: MessageRequest,
    services: ServicesDep,
    caller: CallerDep,
    wait: Annotated[
        float | None, Query(ge=0, description="Without `stream`: seconds to wait for the end; the server's limit.")
    ] = None,
    last_event_id: Annotated[
        str | None, Header(description="With `stream`: id of the last event received of this message's turn.")
    ] = None,
) -> Response:
    """Send a message; the turn that answers it goes on in any case, also when the client disconnects.

    The answer is the turn's events, see its `events`; with `stream: false` the turn itself. Send a `messageId` to be
    able to repeat the request: the same id meets the same turn, and `Last-Event-ID` leaves out what came before.
    `retryOfAssistantMessageId` answers the message before that one anew, and the conversation goes on from there. One
    turn of a session runs at a time.
    """
    if body.stream:
        # What is refused begins no turn.
        position_of(last_event_id)
    turn_id = await services.turns.send(caller, session_id, body)
    headers = {"Location": f"/v1/sessions/{session_id}/turns/{turn_id}"}
    if body.stream:
        response = event_stream(await services.turns.events(caller, session_id, turn_id, after=last_event_id))
        response.headers.update(headers)
        return response
    limit = services.settings.max_wait_seconds
    seconds = limit if wait is None else min(wait, limit)
    turn = await services.turns.turn(caller, session_id, turn_id, wait_seconds=seconds)
    status = 202 if turn.status is TurnStatus.RUNNING else 200
    return JSONResponse(turn.model_dump(mode="json", exclude_none=True), status_code=status, headers=headers)


@router.get("/{session_id}/turns/{turn_id}", responses=documented_problems(401, 404, 410, 503))
async def get_turn(
    session_id: SessionId,
    turn_id: TurnId,
    services: ServicesDep,
    caller: CallerDep,
    wait: Annotated[float, Query(ge=0, description="Seconds to wait for its end, up to the server's limit.")] = 0,
) -> Turn:
    """A turn and, once it has ended, its messages, for as long as its session lives.

    Works while no worker is alive, as long as Temporal keeps the turn's history.
    """
    seconds = min(wait, services.settings.max_wait_seconds)
    return await services.turns.turn(caller, session_id, turn_id, wait_seconds=seconds)


@router.post(
    "/{session_id}/turns/{turn_id}/cancel", status_code=202, responses=documented_problems(401, 404, 409, 410, 503)
)
async def cancel_turn(session_id: SessionId, turn_id: TurnId, services: ServicesDep, caller: CallerDep) -> Turn:
    """Stop a turn, its tools and their paid runs. It becomes `cancelled` when the last of them has ended."""
    return await services.turns.cancel(caller, session_id, turn_id)


@router.get(
    "/{session_id}/turns/{turn_id}/events",
    response_class=StreamingResponse,
    responses={200: _STREAM, **documented_problems(400, 401, 404, 410, 503)},
)
async def follow_turn(
    session_id: SessionId,
    turn_id: TurnId,
    services: ServicesDep,
    caller: CallerDep,
    last_event_id: Annotated[str | None, Header(description="Id of the last event received.")] = None,
) -> StreamingResponse:
    """A turn's events: all of them, or those after `Last-Event-ID`, as they happen.

    `compaction` (older messages were summarised), `text-delta`, `tool-call-delta` (a piece of a call's arguments),
    `tool-call`, `tool-result` (with `compressed`, `locator`, `summary` when it was stored), `hand-off` (to be answered
    at the task), `reminder`, `retry` (with `error_kind`; with `discard_text`, drop the step's text), `step-finish`
    (with `usage`, always numbers, and `warnings` if there are any), `error`, `finish`.
    """
    return event_stream(await services.turns.events(caller, session_id, turn_id, after=last_event_id))


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

    `task_completed`: a call has its answer. `call_refused`: a call became no task, with its `error`. `update` and
    `reaction`: what tools say to the user meanwhile. All of them have an id and are sent again from any point with
    `Last-Event-ID`, the latest 200 for certain; `events_missed` says how many older ones are not kept any more.
    """
    events = await services.session_events.follow(caller, session_id, after=last_event_id)
    return event_stream(events) if events is not None else Response(status_code=204)
