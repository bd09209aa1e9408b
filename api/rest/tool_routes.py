"""`/v1/tools`: the tools, and calls with the answer in the response."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from outlast.api.http.dependencies import CallerDep, IdempotencyKey, ServicesDep
from outlast.api.http.known_parameters import KnownParametersRoute
from outlast.api.http.problems import documented_problems
from outlast.api.rest.task_routes import visible_answer
from outlast.contracts.tasks import CallBody, TaskAnswer, TaskRequest, ToolList, ToolView
from outlast.workflows.tools.framework.tool import Tool

router = APIRouter(prefix="/v1/tools", tags=["tools"], route_class=KnownParametersRoute)

ToolName = Annotated[str, Path(min_length=1, max_length=128, description="Name of the tool.")]
ModeQuery = Annotated[str | None, Query(description="How tools are presented; by default, the server's mode.")]


@router.get("", responses=documented_problems(401, 404))
async def list_tools(services: ServicesDep, caller: CallerDep, mode: ModeQuery = None) -> ToolList:
    """The tools, with their schemas."""
    tools = await services.catalogue.listed(mode or services.settings.mode, caller)
    return ToolList(tools=tuple(_view(definition) for definition in tools.tools.values()))


@router.get("/{name}", responses=documented_problems(401, 404, 503))
async def get_tool(name: ToolName, services: ServicesDep, caller: CallerDep, mode: ModeQuery = None) -> ToolView:
    """One tool. `user--name` is the direct tool of any Actor that you can see."""
    return _view(await services.catalogue.resolve(mode or services.settings.mode, name, caller))


@router.post(
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
        description=definition.description,
        input_schema=definition.input_schema,
        output_schema=definition.output_schema,
        annotations=hints.as_mcp(),
        actor=definition.actor,
    )
