"""`/v1/tasks`: tasks and their rows; `/v1/tools`: tools, and calls by name; `/v1/handoffs`: open hand-offs."""

from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing
from typing import Annotated

from fastapi import APIRouter, Header, Path, Query, Response
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import StringConstraints

from outlast.activities.bounds import MAX_SECONDS
from outlast.api.catalog.mcp_results import visible_meta
from outlast.api.http.dependencies import (
    AnswererDep,
    CallerDep,
    CancelPrincipalDep,
    IdempotencyKey,
    KnownParametersRoute,
    PreferredWait,
    ReaderDep,
    ServicesDep,
    StarterDep,
)
from outlast.api.http.event_stream import begun_soon, event_stream, lines_response, sse_response
from outlast.api.http.problems import documented_problems
from outlast.api.tasks.live_rows import LastRow, RowChunk, Rows
from outlast.contracts.base import CallerName
from outlast.contracts.handoffs import HandoffList
from outlast.contracts.tasks import (
    AgainRequest,
    CallBody,
    ProgramRequest,
    ResolveRequest,
    ResurrectRequest,
    RowsWanted,
    SubmittedInput,
    Task,
    TaskAnswer,
    TaskCall,
    TaskListing,
    TaskPage,
    TaskRequest,
    ToolList,
    ToolView,
)
from outlast.workflows.tools.framework.tool import Tool

handoffs_router = APIRouter(prefix="/v1/handoffs", tags=["tasks"], route_class=KnownParametersRoute)
ToolNames = Annotated[
    list[Annotated[str, StringConstraints(min_length=1, max_length=128)]],
    Query(alias="tool", max_length=20, description="Only hand-offs of this tool; repeat it for several."),
]
router = APIRouter(prefix="/v1/tasks", tags=["tasks"], route_class=KnownParametersRoute)
TaskId = Annotated[str, Path(min_length=1, max_length=200, description="Id of the task.")]
programs_router = APIRouter(prefix="/v1/programs", tags=["tasks"], route_class=KnownParametersRoute)
rows_router = APIRouter(prefix="/v1/tasks", tags=["tasks"], route_class=KnownParametersRoute)
_LINES = "application/x-ndjson"
_LINES_TYPES = (_LINES, "application/jsonl", "application/json-lines")
_FRAMES_AT_ONCE = 16 * 1024
"""Bytes of frames that are joined to one piece of the response."""


@router.post(
    "",
    status_code=201,
    response_model=Task | TaskAnswer,
    responses={
        200: {"model": TaskAnswer, "description": "The handler returned within the wait."},
        202: {"model": TaskAnswer, "description": "The wait is over and the task is still working."},
        **documented_problems(400, 401, 403, 404, 409, 413, 422, 503, 507),
    },
)
async def start_task(
    body: TaskRequest, services: ServicesDep, caller: CallerDep, key: IdempotencyKey, wait: PreferredWait
) -> JSONResponse:
    """Start a tool call as a durable task.

    Without `Prefer: wait=N` it answers 201 with the task at once. With it, it waits up to N seconds: 200 with the
    result, or 202 if the task is still working. The task continues in any case, also if the client disconnects.
    """
    if wait <= 0:
        task = await services.tasks.start(caller, body, idempotency_key=key)
        return _task_response(task, 201, task.id)
    answer = await services.tasks.call(caller, body, wait_seconds=wait, idempotency_key=key)
    return _task_response(visible_answer(answer), 200 if answer.result else 202, answer.task.id, applied_wait=wait)


@programs_router.post(
    "",
    status_code=201,
    response_model=Task | TaskAnswer,
    responses={
        200: {"model": TaskAnswer, "description": "The program ended within the wait."},
        202: {"model": TaskAnswer, "description": "The wait is over and the program is still running."},
        **documented_problems(400, 401, 403, 404, 409, 413, 422, 503, 507),
    },
)
async def run_program(
    body: ProgramRequest, services: ServicesDep, caller: CallerDep, key: IdempotencyKey, wait: PreferredWait
) -> JSONResponse:
    """Run a program whose calls of tools are tasks, as a task: the same as a call of the tool `run-program`."""
    return await start_task(body.as_call, services, caller, key, wait)


@router.get("", responses=documented_problems(400, 401, 503))
async def list_tasks(services: ServicesDep, principal: ReaderDep, listing: Annotated[TaskListing, Query()]) -> TaskPage:
    """Your tasks: open ones first, then the most recently ended. With `admin` and `caller`, those of other callers."""
    return await services.tasks.list(principal, listing)


@router.get("/{task_id}", responses=documented_problems(401, 404, 503))
async def get_task(task_id: TaskId, services: ServicesDep, principal: ReaderDep) -> Task:
    """The current state of a task. Works even if no worker is running.

    Another caller's task that waits for your approval is shown with the call to approve. With `admin`, you can read
    tasks of all callers, and their results, events and rows; the audit log records it.
    """
    return await services.tasks.look_at(principal, task_id)


@router.get(
    "/{task_id}/result",
    responses={202: {"model": TaskAnswer, "description": "Still working."}, **documented_problems(401, 404, 503)},
)
async def get_result(
    task_id: TaskId,
    services: ServicesDep,
    principal: ReaderDep,
    response: Response,
    wait: Annotated[
        float, Query(ge=0, le=MAX_SECONDS, description="Seconds to wait for the result, up to the server's limit.")
    ] = 0,
) -> TaskAnswer:
    """A task's result. It can be read any number of times."""
    seconds = min(wait, services.settings.max_wait_seconds)
    owner = await services.tasks.readable_by(principal, task_id, "result")
    answer = await services.tasks.answer(owner, task_id, wait_seconds=seconds)
    response.status_code = 200 if answer.result else 202
    return visible_answer(answer)


@router.get("/{task_id}/call", responses=documented_problems(401, 404, 503))
async def get_call(task_id: TaskId, services: ServicesDep, principal: ReaderDep) -> TaskCall:
    """The call behind a task: tool, arguments, options, and the operator's rule that decided. Secrets are masked."""
    return await services.repetitions.call_of(principal, task_id)


@router.post(
    "/{task_id}/again",
    status_code=201,
    response_model=Task,
    responses=documented_problems(400, 401, 403, 404, 409, 413, 422, 503, 507),
)
async def repeat_call(
    task_id: TaskId,
    services: ServicesDep,
    principal: StarterDep,
    key: IdempotencyKey,
    body: AgainRequest | None = None,
) -> JSONResponse:
    """Make the call of a task again, in a new task, which is `again_of` this one; the body may change it.

    It is checked by the current rules and limits, and never answered by an earlier call. Only the caller of a task can
    make its call again.
    """
    task = await services.repetitions.again(principal, task_id, body or AgainRequest(), idempotency_key=key)
    return _task_response(task, 201, task.id)


@router.post("/{task_id}/input", responses=documented_problems(400, 401, 404, 409, 422, 503))
async def answer_task(task_id: TaskId, body: SubmittedInput, services: ServicesDep, principal: AnswererDep) -> Task:
    """Answer questions of a task in state `input_required`.

    The answers are checked against the questions' schemas first; an invalid one is refused, and the task keeps waiting.
    Each question takes one answer.
    """
    return await services.tasks.submit_input(principal, task_id, body.answers)


@router.post("/{task_id}/cancel", status_code=202, responses=documented_problems(401, 404, 409, 503))
async def cancel_task(task_id: TaskId, services: ServicesDep, principal: CancelPrincipalDep) -> Task:
    """Cancel a task. It becomes `cancelled` when the platform reports that its run has ended.

    With `admin`, you can cancel tasks of all callers.
    """
    return await services.tasks.cancel_by(principal, task_id)


@router.post(
    "/{task_id}/resurrect", status_code=201, responses=documented_problems(400, 401, 403, 404, 409, 422, 503, 507)
)
async def resurrect_run(
    task_id: TaskId, services: ServicesDep, caller: CallerDep, body: ResurrectRequest | None = None
) -> Task:
    """Continue the run of an ended task, instead of paying for a new one, in a new task that `resurrects` this one.

    It has the same tool and arguments, and its answer has all rows of the run. A run that succeeded is refused; one
    that failed by itself, or produced nothing, needs `force`. A repeated request returns the same task.
    """
    return await services.resurrections.resurrect(caller, task_id, body or ResurrectRequest())


@router.post("/{task_id}/resolve", responses=documented_problems(400, 401, 403, 404, 409, 422, 503, 507))
async def resolve_task(task_id: TaskId, body: ResolveRequest, services: ServicesDep, caller: CallerDep) -> Task:
    """Record what you found out about a call that ended with `outcome_unknown`; `resolution` of the task has it.

    `done` completes the task, with `result` if you know it. After `not_done`, the call may be made again. `retry` makes
    it again, in the task `resolution.task_id`. The first resolution is final; a repeated request changes nothing.
    """
    return await services.resolutions.resolve(caller, task_id, body)


@router.get(
    "/{task_id}/events",
    response_class=StreamingResponse,
    responses={
        200: {
            "content": {"text/event-stream": {}},
            "description": "Server-sent events until the task's workflow ends.",
        },
        **documented_problems(400, 401, 404, 503),
    },
)
async def follow_task(
    task_id: TaskId,
    services: ServicesDep,
    principal: ReaderDep,
    last_event_id: Annotated[str | None, Header(description="Id of the last event received.")] = None,
) -> StreamingResponse:
    """A task's events as they happen.

    `created`, `run_started`, `run_resurrected`, `input_required`, `isomorphic_handoff`, `input_answered`,
    `output_stored`, `handler_returned`, `task_completed` and `run_finished` are durable, have an id and are sent again
    from any point with `Last-Event-ID`; `status_message` reports a run's progress and is not sent again.
    """
    owner = await services.tasks.readable_by(principal, task_id, "events")
    return event_stream(await services.tasks.events(owner, task_id, after=last_event_id))


def visible_answer(answer: TaskAnswer) -> TaskAnswer:
    """The answer with only those entries of the result's `_meta` that clients receive."""
    if answer.result is None or not answer.result.meta:
        return answer
    meta = visible_meta(answer.result.meta, mode=answer.task.mode)
    return answer.model_copy(update={"result": answer.result.model_copy(update={"meta": meta})})


def _task_response(body: Task | TaskAnswer, status: int, task_id: str, applied_wait: float = 0) -> JSONResponse:
    headers = {"Location": f"/v1/tasks/{task_id}"}
    if applied_wait:
        headers["Preference-Applied"] = f"wait={applied_wait:.0f}"
    return JSONResponse(body.model_dump(mode="json", exclude_none=True), status_code=status, headers=headers)


@rows_router.get(
    "/{task_id}/rows",
    response_class=StreamingResponse,
    responses={
        200: {
            "content": {"text/event-stream": {}, _LINES: {}},
            "description": "Server-sent events, or the rows as lines of JSON, until no further row comes.",
        },
        **documented_problems(400, 401, 404, 409, 410, 422, 503),
    },
)
async def stream_rows(
    task_id: TaskId,
    services: ServicesDep,
    principal: ReaderDep,
    wanted: Annotated[RowsWanted, Query()],
    accept: Annotated[str, Header(include_in_schema=False)] = "",
    last_event_id: Annotated[
        str | None, Header(max_length=200, description="Id of the last row received; counts before `after`.")
    ] = None,
) -> StreamingResponse:
    """The rows of a task's runs, each once, as the runs produce them: from the first one, or after any row.

    As server-sent events, every row is an event `row` with an id, after which the stream can continue
    (`Last-Event-ID`), and the last event is `end`. With `Accept: application/x-ndjson` the answer has the bare rows as
    lines of JSON. You can open the stream before the run starts. It ends when the task starts no further run and all
    rows were sent.
    """
    owner = await services.tasks.readable_by(principal, task_id, "rows")
    rows = await services.task_rows.stream(owner, task_id, after=last_event_id or wanted.after, follow=wanted.follow)
    rows = await begun_soon(rows)
    accepts_lines = any(kind in accept.lower() for kind in _LINES_TYPES)
    if wanted.form == "jsonl" or (wanted.form is None and accepts_lines):
        return lines_response(_lines(rows), _LINES)
    return sse_response(_frames(rows))


async def _lines(rows: Rows) -> AsyncGenerator[bytes]:
    async with aclosing(rows):
        async for part in rows:
            if isinstance(part, RowChunk):
                yield part.lines
            del part


async def _frames(rows: Rows) -> AsyncGenerator[bytes]:
    async with aclosing(rows):
        async for part in rows:
            if isinstance(part, LastRow):
                yield _end_frame(part)
                continue
            for frames in _together(_row_frame(row_id, line) for row_id, line in part.rows()):
                yield frames
                del frames
            del part


def _together(frames: Iterable[bytes]) -> Iterator[bytes]:
    """The frames, joined to pieces of the response."""
    pieces: list[bytes] = []
    size = 0
    for frame in frames:
        pieces.append(frame)
        size += len(frame)
        if size > _FRAMES_AT_ONCE:
            together, size = b"".join(pieces), 0
            pieces.clear()
            yield together
    if pieces:
        yield b"".join(pieces)


def _row_frame(row_id: str, line: bytes) -> bytes:
    """The row is JSON already, as the platform wrote it. A carriage return would end the line in server-sent events."""
    return b'id: %s\nevent: row\ndata: {"data":%s}\n\n' % (row_id.encode(), line.replace(b"\r", b" "))


def _end_frame(last: LastRow) -> bytes:
    identity = f"id: {last.id}\n" if last.id else ""
    data = last.end.model_dump_json(exclude_none=True)
    return f'{identity}event: end\ndata: {{"data":{data}}}\n\n'.encode()


@handoffs_router.get("", responses=documented_problems(400, 401, 503))
async def list_handoffs(
    services: ServicesDep,
    principal: ReaderDep,
    tools: ToolNames = [],  # noqa: B006
    caller: Annotated[CallerName, Query()] = None,
) -> HandoffList:
    """Your tasks' open hand-offs and approvals, then others' approvals that wait for you; the newest thousand each."""
    return HandoffList(handoffs=tuple(await services.handoffs.open(principal, tools, caller=caller)))


@handoffs_router.get(
    "/events",
    response_class=StreamingResponse,
    responses={
        200: {
            "content": {"text/event-stream": {}},
            "description": "Server-sent events, in a stream that does not end.",
        },
        **documented_problems(400, 401, 503),
    },
)
async def follow_handoffs(services: ServicesDep, principal: ReaderDep, tools: ToolNames = []) -> StreamingResponse:  # noqa: B006
    """Your tasks' open hand-offs, and others' approvals that wait for you, as events.

    `handoff` for each that is open or opens later, `handoff_closed` for each that was closed. A new connection begins
    with all that are open.
    """
    await services.handoffs.open(principal, tools)  # An invalid request is refused before the stream begins.
    return event_stream(services.handoffs.follow(principal, tools))


tools_router = APIRouter(prefix="/v1/tools", tags=["tools"], route_class=KnownParametersRoute)

ToolName = Annotated[str, Path(min_length=1, max_length=128, description="Name of the tool.")]
ModeQuery = Annotated[str | None, Query(description="How tools are presented; by default, the server's mode.")]


@tools_router.get("", responses=documented_problems(401, 404))
async def list_tools(services: ServicesDep, caller: CallerDep, mode: ModeQuery = None) -> ToolList:
    """The tools, with their schemas."""
    tools = await services.catalogue.listed(mode or services.settings.mode, caller)
    return ToolList(tools=tuple(_view(definition) for definition in tools.tools.values()))


@tools_router.get("/{name}", responses=documented_problems(401, 404, 503))
async def get_tool(name: ToolName, services: ServicesDep, caller: CallerDep, mode: ModeQuery = None) -> ToolView:
    """One tool. `user--name` is the direct tool of any Actor that you can see."""
    return _view(await services.catalogue.resolve(mode or services.settings.mode, name, caller))


@tools_router.post(
    "/{name}/call",
    responses={
        202: {"model": TaskAnswer, "description": "Still working."},
        **documented_problems(400, 401, 403, 404, 409, 413, 422, 503, 507),
    },
)
async def call_tool(
    name: ToolName, body: CallBody, services: ServicesDep, caller: CallerDep, key: IdempotencyKey, response: Response
) -> TaskAnswer:
    """Call a tool and wait for its answer.

    It is a task like any other: when it takes longer than the server waits (202), or the connection breaks, collect
    the result at `/v1/tasks/{id}/result`.
    """
    request = TaskRequest(
        tool=name,
        arguments=body.arguments,
        mode=body.mode,
        session_id=body.session_id,
        options=body.options,
        tool_mask=body.tool_mask,
    )
    wait = services.settings.max_wait_seconds
    answer = await services.tasks.call(caller, request, wait_seconds=wait, idempotency_key=key)
    response.status_code = 200 if answer.result else 202
    response.headers["Location"] = f"/v1/tasks/{answer.task.id}"
    return visible_answer(answer)


def _view(definition: Tool) -> ToolView:
    hints = definition.annotations
    return ToolView(
        name=definition.name,
        title=hints.title,
        category=definition.category.value,
        tags=definition.tags,
        description=definition.description,
        input_schema=definition.input_schema,
        output_schema=definition.output_schema,
        annotations=hints.as_mcp(),
        actor=definition.actor,
        server=definition.server.server if definition.server is not None else None,
    )
