"""`/v1/saved-calls`: a tool and its input under a name, to be started by name."""

from typing import Annotated

from fastapi import APIRouter, Path, Response
from fastapi.responses import JSONResponse

from outlast.api.http.dependencies import CallerDep, CancellerDep, IdempotencyKey, PreferredWait, ServicesDep
from outlast.api.http.known_parameters import KnownParametersRoute
from outlast.api.http.problems import documented_problems
from outlast.api.rest.task_routes import start_task
from outlast.contracts.saved_calls import RunSavedCall, SaveCallRequest, SavedCall, SavedCallList
from outlast.contracts.schedules import Name
from outlast.contracts.tasks import Task, TaskAnswer

router = APIRouter(prefix="/v1/saved-calls", tags=["saved calls"], route_class=KnownParametersRoute)

CallName = Annotated[Name, Path(description="Name of the saved call.")]
_REFUSALS = documented_problems(400, 401, 403, 404, 409, 413, 422, 503, 507)


@router.get("", responses=documented_problems(401, 503))
async def list_saved_calls(services: ServicesDep, caller: CallerDep) -> SavedCallList:
    """Your saved calls, by name."""
    return await services.saved_calls.list(caller)


@router.get("/{name}", responses=documented_problems(401, 404, 503))
async def get_saved_call(name: CallName, services: ServicesDep, caller: CallerDep) -> SavedCall:
    """One saved call; secrets in it are masked."""
    return await services.saved_calls.get(caller, name)


@router.put("/{name}", responses=_REFUSALS)
async def save_call(name: CallName, body: SaveCallRequest, services: ServicesDep, caller: CallerDep) -> SavedCall:
    """Keep a call under a name, in place of an earlier one. It is checked as if it were started now.

    Where its arguments show the mask of a secret, the secret of the earlier one stays.
    """
    return await services.saved_calls.save(caller, name, body)


@router.delete("/{name}", status_code=204, responses=documented_problems(401, 404, 503))
async def delete_saved_call(name: CallName, services: ServicesDep, caller: CancellerDep) -> Response:
    """Delete a saved call. Schedules of it have nothing to start from then on."""
    await services.saved_calls.delete(caller, name)
    return Response(status_code=204)


@router.post(
    "/{name}/run",
    status_code=201,
    response_model=Task | TaskAnswer,
    responses={
        200: {"model": TaskAnswer, "description": "The handler returned within the wait."},
        202: {"model": TaskAnswer, "description": "The wait is over and the task is still working."},
        **_REFUSALS,
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
    """Start a saved call, with other arguments where the body has some; answers as `POST /v1/tasks` does."""
    asked = await services.saved_calls.request(caller, name, body.arguments if body else {})
    return await start_task(asked, services, caller, key, wait)
