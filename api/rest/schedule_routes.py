"""`/v1/schedules`: calls and batches started at due times; `/v1/saved-calls`: named calls, started by name."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Path, Query, Response
from fastapi.responses import JSONResponse
from pydantic import AwareDatetime

from outlast.api.errors import BadRequest
from outlast.api.http.dependencies import (
    CallerDep,
    CancellerDep,
    IdempotencyKey,
    KnownParametersRoute,
    PreferredWait,
    ServicesDep,
    SubjectDep,
    SubjectsDep,
)
from outlast.api.http.problems import documented_problems
from outlast.api.rest.task_routes import start_task
from outlast.contracts import schedules as contracts
from outlast.contracts.schedules import RunSavedCall, SaveCallRequest, SavedCall, SavedCallList
from outlast.contracts.tasks import Task, TaskAnswer

saved_calls_router = APIRouter(prefix="/v1/saved-calls", tags=["saved calls"], route_class=KnownParametersRoute)
CallName = Annotated[contracts.Name, Path(description="Name of the saved call.")]
_SAVED_CALL_REFUSALS = documented_problems(400, 401, 403, 404, 409, 413, 422, 503, 507)
router = APIRouter(prefix="/v1/schedules", tags=["schedules"], route_class=KnownParametersRoute)
ScheduleId = Annotated[str, Path(min_length=1, max_length=100, description="Id of the schedule, as you named it.")]
_REFUSALS = documented_problems(400, 401, 403, 404, 409, 413, 422, 503)
_PREVIEW, _AGENDA = timedelta(days=7), timedelta(days=1)


@router.post("", status_code=201, response_model=contracts.Schedule, responses=_REFUSALS)
async def create_schedule(body: contracts.ScheduleRequest, services: ServicesDep, caller: CallerDep) -> JSONResponse:
    """Schedule a call, a batch or a saved call.

    It is checked as if it started now, and again at each due time by the rules, spending limits and keys of that time.
    The same request again changes nothing.
    """
    schedule = await services.schedules.create(caller, body)
    headers = {"Location": f"/v1/schedules/{schedule.id}"}
    return JSONResponse(schedule.model_dump(mode="json", exclude_none=True), status_code=201, headers=headers)


@router.get("", responses=documented_problems(400, 401, 503))
async def list_schedules(
    services: ServicesDep,
    subject: SubjectsDep,
    page_size: Annotated[int, Query(ge=1, le=50, description="Schedules per page.")] = 50,
    page_token: Annotated[
        str | None, Query(max_length=4096, description="`next_page_token` of the previous page.")
    ] = None,
) -> contracts.SchedulePage:
    """Your schedules. `GET /v1/schedules/{schedule_id}` has the results of their firings."""
    return await services.schedules.list(
        subject.caller, every=subject.every, page_size=page_size, page_token=page_token
    )


@router.get("/upcoming", responses=documented_problems(400, 401, 503))
async def upcoming_firings(
    services: ServicesDep,
    subject: SubjectsDep,
    until: Annotated[AwareDatetime | None, Query(description="End of the period. Default: in 24 hours.")] = None,
) -> contracts.Upcoming:
    """The next firings of all your schedules that are not paused, in the order of their times."""
    return await services.schedules.upcoming(
        subject.caller, every=subject.every, until=until or datetime.now(UTC) + _AGENDA
    )


@router.get("/{schedule_id}", responses=documented_problems(401, 404, 503))
async def get_schedule(schedule_id: ScheduleId, services: ServicesDep, caller: SubjectDep) -> contracts.Schedule:
    """The current state of a schedule: its next due times, and the results of its latest firings. Needs no worker."""
    return await services.schedules.get(caller, schedule_id)


@router.patch("/{schedule_id}", responses=_REFUSALS)
async def update_schedule(
    schedule_id: ScheduleId, body: contracts.ScheduleChanges, services: ServicesDep, caller: CallerDep
) -> contracts.Schedule:
    """Change the fields in the body. Firings that have started are not changed.

    A mask of a secret in the arguments of a call keeps the secret.
    """
    return await services.schedules.update(caller, schedule_id, body)


@router.delete("/{schedule_id}", status_code=204, responses=documented_problems(401, 404, 503))
async def delete_schedule(schedule_id: ScheduleId, services: ServicesDep, caller: CancellerDep) -> Response:
    """Delete a schedule. Tasks and batches that it has started continue, and stay in the lists."""
    await services.schedules.delete(caller, schedule_id)
    return Response(status_code=204)


@router.post("/{schedule_id}/pause", responses=documented_problems(401, 404, 422, 503))
async def pause_schedule(
    schedule_id: ScheduleId, services: ServicesDep, caller: CallerDep, body: contracts.PauseRequest | None = None
) -> contracts.Schedule:
    """Pause a schedule. Due times that pass meanwhile are not fired later."""
    return await services.schedules.pause(caller, schedule_id, body.reason if body else None)


@router.post("/{schedule_id}/resume", responses=documented_problems(401, 404, 422, 503))
async def resume_schedule(
    schedule_id: ScheduleId, services: ServicesDep, caller: CallerDep, body: contracts.PauseRequest | None = None
) -> contracts.Schedule:
    """Resume a paused schedule."""
    return await services.schedules.resume(caller, schedule_id, body.reason if body else None)


@router.post("/{schedule_id}/trigger", status_code=202, responses=documented_problems(401, 404, 503))
async def trigger_schedule(schedule_id: ScheduleId, services: ServicesDep, caller: CallerDep) -> contracts.Schedule:
    """Fire a schedule now, even if it is paused. Its overlap policy applies."""
    return await services.schedules.trigger(caller, schedule_id)


@router.post("/{schedule_id}/backfill", status_code=202, responses=documented_problems(401, 404, 422, 503))
async def backfill_schedule(
    schedule_id: ScheduleId, body: contracts.BackfillRequest, services: ServicesDep, caller: CallerDep
) -> contracts.DueTimes:
    """Fire a schedule for the due times in a period. The answer has these times, each of which is a firing."""
    return await services.schedules.backfill(caller, schedule_id, body)


@router.get("/{schedule_id}/times", responses=documented_problems(400, 401, 404, 422, 503))
async def preview_schedule(
    schedule_id: ScheduleId,
    services: ServicesDep,
    caller: SubjectDep,
    start: Annotated[AwareDatetime | None, Query(description="Start of the period. Default: now.")] = None,
    end: Annotated[AwareDatetime | None, Query(description="End of the period. Default: a week later.")] = None,
) -> contracts.DueTimes:
    """The due times of a schedule in a period, with its jitter, whether or not it is paused."""
    start = start or datetime.now(UTC)
    end = end or start + _PREVIEW
    if end < start:
        raise BadRequest("`end` is before `start`.")
    return await services.schedules.times(caller, schedule_id, contracts.Period(start=start, end=end))


@saved_calls_router.get("", responses=documented_problems(401, 503))
async def list_saved_calls(services: ServicesDep, caller: SubjectDep) -> SavedCallList:
    """Your saved calls, by name."""
    return await services.saved_calls.list(caller)


@saved_calls_router.get("/{name}", responses=documented_problems(401, 404, 503))
async def get_saved_call(name: CallName, services: ServicesDep, caller: SubjectDep) -> SavedCall:
    """One saved call; secrets in it are masked."""
    return await services.saved_calls.get(caller, name)


@saved_calls_router.put("/{name}", responses=_SAVED_CALL_REFUSALS)
async def save_call(name: CallName, body: SaveCallRequest, services: ServicesDep, caller: CallerDep) -> SavedCall:
    """Save a call under a name, in place of an earlier one. It is checked as if it started now.

    A mask of a secret in its arguments keeps the secret of the earlier one.
    """
    return await services.saved_calls.save(caller, name, body)


@saved_calls_router.delete("/{name}", status_code=204, responses=documented_problems(401, 404, 503))
async def delete_saved_call(name: CallName, services: ServicesDep, caller: CancellerDep) -> Response:
    """Delete a saved call. Later firings of its schedules fail."""
    await services.saved_calls.delete(caller, name)
    return Response(status_code=204)


@saved_calls_router.post(
    "/{name}/run",
    status_code=201,
    response_model=Task | TaskAnswer,
    responses={
        200: {"model": TaskAnswer, "description": "The handler returned within the wait."},
        202: {"model": TaskAnswer, "description": "The wait is over and the task is still working."},
        **_SAVED_CALL_REFUSALS,
    },
)
async def run_saved_call(
    name: CallName,
    services: ServicesDep,
    caller: CallerDep,
    key: IdempotencyKey,
    wait: PreferredWait,
    body: RunSavedCall | None = None,
) -> JSONResponse:
    """Start a saved call, with the arguments in the body over its own. Answers as `POST /v1/tasks` does."""
    asked = await services.saved_calls.request(caller, name, body.arguments if body else {})
    return await start_task(asked, services, caller, key, wait)
