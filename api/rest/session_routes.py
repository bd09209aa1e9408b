"""`/v1/sessions`: conversations, their turns and events; `/v1/providers`: model providers and their features."""

from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Response
from fastapi.responses import JSONResponse, StreamingResponse

from outlast.activities.bounds import MAX_SECONDS
from outlast.activities.contracts import Caller
from outlast.api.http.dependencies import (
    CallerDep,
    CancellerDep,
    KnownParametersRoute,
    ServicesDep,
    SubjectDep,
    SubjectsDep,
)
from outlast.api.http.event_stream import ClosingResponse, event_stream
from outlast.api.http.problems import documented_problems
from outlast.api.services import Services
from outlast.api.sessions.collection import MAX_PAGE, with_outputs
from outlast.api.sessions.profile import provider_list
from outlast.api.temporal.session_events import position_of
from outlast.contracts.sessions import (
    MessagePage,
    MessageRequest,
    ProviderList,
    Session,
    SessionExport,
    SessionPage,
    SessionRequest,
    SessionTitle,
    Turn,
)
from outlast.workflows.contracts.sessions import TurnStatus

providers_router = APIRouter(prefix="/v1/providers", tags=["sessions"], route_class=KnownParametersRoute)
router = APIRouter(prefix="/v1/sessions", tags=["sessions"], route_class=KnownParametersRoute)
SessionId = Annotated[str, Path(min_length=1, max_length=200, description="The `session_id` of its calls.")]
TurnId = Annotated[str, Path(min_length=1, max_length=200, description="Id of the turn: the assistant's message.")]
_STREAM: dict[str, Any] = {"content": {"text/event-stream": {}}, "description": "Server-sent events to its end."}


@router.post("", status_code=201, responses=documented_problems(400, 401, 404, 409, 410, 422, 503))
async def begin_session(body: SessionRequest, services: ServicesDep, caller: CallerDep, response: Response) -> Session:
    """Start a conversation. Its tools are fixed now, so that every turn shows a model the same bytes.

    The same id with the same settings returns the existing session. Other settings are refused (409), unless `update`
    is set: then they replace those of the session, and later turns use the new tools.
    """
    session = await services.sessions.create(caller, body)
    response.headers["Location"] = f"/v1/sessions/{session.id}"
    return session


@router.get("", responses=documented_problems(400, 401, 422, 503))
async def list_sessions(
    services: ServicesDep,
    subject: SubjectsDep,
    page_size: Annotated[int, Query(ge=1, le=MAX_PAGE, description="Sessions per page.")] = 50,
    page_token: Annotated[str | None, Query(description="`next_page_token` of the previous page.")] = None,
) -> SessionPage:
    """Your sessions, newest first. Works even if no worker is running."""
    return await services.session_collection.list(
        subject.caller, every=subject.every, page_size=page_size, page_token=page_token
    )


@router.post("/import", status_code=201, responses=documented_problems(400, 401, 404, 409, 410, 422, 503))
async def import_session(body: SessionExport, services: ServicesDep, caller: CallerDep, response: Response) -> Session:
    """Begin a session with an exported conversation. `settings.sessionId` sets its id.

    Its tools are looked up again. The outputs of the document are stored for the new session, under new locators, which
    its messages contain. Its turns have no cost, and signed reasoning is not sent to a provider again.
    """
    session = await services.session_collection.import_(caller, body)
    response.headers["Location"] = f"/v1/sessions/{session.id}"
    return session


@router.get("/{session_id}", responses=documented_problems(401, 404, 410, 503))
async def get_session(session_id: SessionId, services: ServicesDep, caller: SubjectDep) -> Session:
    """A conversation: its model and tools, its usage, its latest turns."""
    return await services.sessions.describe(caller, session_id)


@router.patch("/{session_id}", responses=documented_problems(401, 404, 410, 422, 503))
async def rename_session(
    session_id: SessionId, body: SessionTitle, services: ServicesDep, caller: CallerDep
) -> Session:
    """Rename a conversation."""
    return await services.sessions.rename(caller, session_id, body.title)


@router.delete("/{session_id}", status_code=204, responses=documented_problems(401, 404, 409, 410, 503))
async def delete_session(session_id: SessionId, services: ServicesDep, caller: CancellerDep) -> None:
    """Delete a conversation, the stored outputs of its calls, its turns and its tasks. Later requests answer 410.

    Refused (409) while a turn or a task of it runs.
    """
    await services.session_collection.delete(caller, session_id)


@router.get("/{session_id}/messages", responses=documented_problems(400, 401, 404, 410, 422, 503))
async def list_messages(
    session_id: SessionId,
    services: ServicesDep,
    caller: SubjectDep,
    page_size: Annotated[int, Query(ge=1, le=MAX_PAGE, description="Messages per page.")] = 50,
    page_token: Annotated[str | None, Query(description="`next_page_token` of the previous page.")] = None,
) -> MessagePage:
    """The messages up to the latest turn that has ended. The first page holds the latest messages."""
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

    With `outputs`, the document is at most as large as a request body may be here: outputs that do not fit, or no
    longer exist, are listed in `left_out`.
    """
    exported = await services.session_collection.export(caller, session_id)
    if not outputs:
        return exported
    room = services.limits.unread.room_of(caller.id)
    pieces = with_outputs(exported, services.outputs, caller, room, services.settings.max_body_bytes)
    return ClosingResponse(pieces, media_type="application/json")


@router.post(
    "/{session_id}/messages",
    response_model=Turn,
    responses={
        200: {"model": Turn, "description": "The turn's events; with `stream: false` the turn, which has ended."},
        202: {"model": Turn, "description": "The turn is still running; follow its events, or request it again."},
        **documented_problems(400, 401, 402, 404, 409, 410, 422, 503, 507),
    },
)
async def send_message(
    session_id: SessionId,
    body: MessageRequest,
    services: ServicesDep,
    caller: CallerDep,
    wait: Annotated[
        float | None,
        Query(
            ge=0, le=MAX_SECONDS, description="With `stream: false`: seconds to wait for the end; the server's limit."
        ),
    ] = None,
    last_event_id: Annotated[
        str | None, Header(description="When streaming: id of the last event of this turn that was received.")
    ] = None,
) -> Response:
    """Send a message. The turn that answers it continues when the client disconnects.

    The response is the stream of the turn's events, see its `events`; with `stream: false` the turn itself. Send a
    `messageId` so that the request can be repeated: the same id returns the same turn, and `Last-Event-ID` leaves out
    the events before. `retryOfAssistantMessageId` answers the message before that one again, and the conversation
    continues from there. A session runs one turn at a time.
    """
    if body.stream:
        position_of(last_event_id)  # A malformed id must not begin a turn.
    await services.stored_bytes.check(caller.id)
    turn_id = await services.turns.send(caller, session_id, body)
    headers = {"Location": f"/v1/sessions/{session_id}/turns/{turn_id}"}
    if body.stream:
        response = await _turn_events(services, caller, session_id, turn_id, last_event_id)
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
    caller: SubjectDep,
    wait: Annotated[
        float, Query(ge=0, le=MAX_SECONDS, description="Seconds to wait for its end, up to the server's limit.")
    ] = 0,
) -> Turn:
    """A turn and, once it has ended, its messages. Available as long as its session.

    Works even if no worker is running, as long as Temporal keeps the turn's history.
    """
    seconds = min(wait, services.settings.max_wait_seconds)
    return await services.turns.turn(caller, session_id, turn_id, wait_seconds=seconds)


@router.post(
    "/{session_id}/turns/{turn_id}/cancel", status_code=202, responses=documented_problems(401, 404, 409, 410, 503)
)
async def cancel_turn(session_id: SessionId, turn_id: TurnId, services: ServicesDep, caller: CancellerDep) -> Turn:
    """Stop a turn, its tools and their paid runs. The turn is `cancelled` when the last of them has ended."""
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
    caller: SubjectDep,
    last_event_id: Annotated[str | None, Header(description="Id of the last event received.")] = None,
) -> StreamingResponse:
    """A turn's events as they happen, from the first one or from the one after `Last-Event-ID`.

    `compaction` (older messages were summarised; `originals` is the page token that lists them), `text-delta`,
    `tool-call-delta` (a piece of a call's arguments), `tool-call`, `tool-result` (with `compressed`, `locator`,
    `summary` if it was stored), `hand-off` (answered at its task), `reminder`, `retry` (with `error_kind`; with
    `discard_text`, drop the step's text), `step-finish` (with `usage`, always numbers, and `warnings` if there are
    any), `error`, `finish`.
    """
    return await _turn_events(services, caller, session_id, turn_id, last_event_id)


@router.get(
    "/{session_id}/events",
    response_class=StreamingResponse,
    responses={
        200: {"content": {"text/event-stream": {}}, "description": "Server-sent events until the session ends."},
        204: {"description": "The session has ended, and there are no events after `Last-Event-ID`."},
        **documented_problems(400, 401, 404, 503),
    },
)
async def follow_session(
    session_id: SessionId,
    services: ServicesDep,
    caller: SubjectDep,
    last_event_id: Annotated[str | None, Header(description="Id of the last event received.")] = None,
) -> Response:
    """A conversation's events as they happen.

    `task_completed`: a call has its answer. `call_refused`: a call was refused with an `error`. `update` and
    `reaction`: messages of tools to the user. Each event has an id, and `Last-Event-ID` continues after it.
    At least the latest 200 are kept; `events_missed` contains the number of older ones that are gone.
    """
    events = await services.session_events.follow(caller, session_id, after=last_event_id)
    return event_stream(events) if events is not None else Response(status_code=204)


async def _turn_events(
    services: Services, caller: Caller, session_id: str, turn_id: str, after: str | None
) -> StreamingResponse:
    room = services.limits.unread.room_of(caller.id)
    return event_stream(await services.turns.events(caller, session_id, turn_id, room, after=after))


@providers_router.get("", responses=documented_problems(401, 503))
async def list_providers(services: ServicesDep, _caller: CallerDep) -> ProviderList:
    """The providers of models: their controls, and their known models with limits.

    `configured` is true if the workers have the provider's key, by `OUTLAST_MODEL_PROVIDERS`, which the embedded stack
    sets. A model that is not listed is refused, unless its provider has `takes_any_model`.
    """
    settings = services.settings
    return provider_list(settings.model_limits, settings.model_prices, settings.configured_providers)
