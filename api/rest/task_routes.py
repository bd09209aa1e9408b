"""`/v1/tasks`: start, list, look at, wait for, cancel and follow tasks."""

from typing import Annotated

from fastapi import APIRouter, Header, Path, Query, Response
from fastapi.responses import JSONResponse, StreamingResponse

from outlast.activities.bounds import MAX_SECONDS
from outlast.api.http.dependencies import (
    AnswererDep,
    CallerDep,
    CancellerDep,
    IdempotencyKey,
    PreferredWait,
    ReaderDep,
    ServicesDep,
)
from outlast.api.http.event_stream import event_stream
from outlast.api.http.known_parameters import KnownParametersRoute
from outlast.api.http.problems import documented_problems
from outlast.api.offer.mcp_results import visible_meta
from outlast.contracts.tasks import (
    ResurrectRequest,
    SubmittedInput,
    Task,
    TaskAnswer,
    TaskListing,
    TaskPage,
    TaskRequest,
)

router = APIRouter(prefix="/v1/tasks", tags=["tasks"], route_class=KnownParametersRoute)


TaskId = Annotated[str, Path(min_length=1, max_length=200, description="Id of the task.")]


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
    result, or 202 when the task is still working; it goes on in any case, also when the client disconnects.
    """
    if wait <= 0:
        task = await services.tasks.start(caller, body, idempotency_key=key)
        return _task_response(task, 201, task.id)
    answer = await services.tasks.call(caller, body, wait_seconds=wait, idempotency_key=key)
    return _task_response(visible_answer(answer), 200 if answer.result else 202, answer.task.id, applied_wait=wait)


@router.get("", responses=documented_problems(400, 401, 503))
async def list_tasks(
    services: ServicesDep,
    caller: CallerDep,
    listing: Annotated[TaskListing, Query()],
) -> TaskPage:
    """Your tasks: open ones first, then those that ended last."""
    return await services.tasks.list(caller, listing)


@router.get("/{task_id}", responses=documented_problems(401, 404, 503))
async def get_task(task_id: TaskId, services: ServicesDep, principal: ReaderDep) -> Task:
    """A task as it is now. Works while no worker is alive.

    Of another caller's task that waits for your approval, you see what is to be approved.
    """
    return await services.tasks.look_at(principal, task_id)


@router.get(
    "/{task_id}/result",
    responses={202: {"model": TaskAnswer, "description": "Still working."}, **documented_problems(401, 404, 503)},
)
async def get_result(
    task_id: TaskId,
    services: ServicesDep,
    caller: CallerDep,
    response: Response,
    wait: Annotated[
        float, Query(ge=0, le=MAX_SECONDS, description="Seconds to wait for the result, up to the server's limit.")
    ] = 0,
) -> TaskAnswer:
    """A task's result. It can be read any number of times."""
    seconds = min(wait, services.settings.max_wait_seconds)
    answer = await services.tasks.answer(caller, task_id, wait_seconds=seconds)
    response.status_code = 200 if answer.result else 202
    return visible_answer(answer)


@router.post("/{task_id}/input", responses=documented_problems(400, 401, 404, 409, 422, 503))
async def answer_task(task_id: TaskId, body: SubmittedInput, services: ServicesDep, principal: AnswererDep) -> Task:
    """Answer questions of a task in state `input_required`.

    The answers are checked against the questions' schemas first; an invalid one is refused, and the task keeps waiting.
    Each question takes one answer.
    """
    return await services.tasks.submit_input(principal, task_id, body.answers)


@router.post("/{task_id}/cancel", status_code=202, responses=documented_problems(401, 404, 409, 503))
async def cancel_task(task_id: TaskId, services: ServicesDep, caller: CancellerDep) -> Task:
    """Cancel a task. It becomes `cancelled` when the platform reports that its run has ended."""
    return await services.tasks.cancel(caller, task_id)


@router.post(
    "/{task_id}/resurrect", status_code=201, responses=documented_problems(400, 401, 403, 404, 409, 422, 503, 507)
)
async def resurrect_run(
    task_id: TaskId, services: ServicesDep, caller: CallerDep, body: ResurrectRequest | None = None
) -> Task:
    """Have the run of an ended task go on, instead of paying a new one: a new task that `resurrects` this one.

    It has the same tool and arguments, and its answer has what the run produced in all its lives. A run that succeeded
    does not go on; one that failed by itself, or produced nothing, only with `force`. Repeated, it is the same task.
    """
    return await services.resurrections.resurrect(caller, task_id, body or ResurrectRequest())


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
    caller: CallerDep,
    last_event_id: Annotated[str | None, Header(description="Id of the last event received.")] = None,
) -> StreamingResponse:
    """A task's events as they happen.

    `created`, `run_started`, `run_resurrected`, `input_required`, `isomorphic_handoff`, `input_answered`,
    `output_stored`, `handler_returned`, `task_completed` and `run_finished` are durable, have an id and are sent again
    from any point with `Last-Event-ID`; `status_message` reports a run's progress and is not sent again.
    """
    events = await services.tasks.events(caller, task_id, after=last_event_id)
    return event_stream(events)


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
