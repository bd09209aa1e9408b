"""Shell completion of tools and task ids: quick, and silent when no server answers."""

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from outlast.client import Client

_SECONDS = 1.0
_NEWEST_TASKS = 50


def complete_tool(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Names of tools that begin so, with what they are."""
    from outlast.client import OutlastError  # noqa: PLC0415 (httpx)

    try:
        with _client(ctx) as client:
            return [(tool.name, tool.title) for tool in client.tools() if tool.name.startswith(incomplete)]
    except OutlastError:
        return []


def complete_task(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Ids of the newest tasks that begin so, with tool and state."""
    from outlast.client import OutlastError  # noqa: PLC0415 (httpx)

    try:
        with _client(ctx) as client:
            tasks = client.list_page(page_size=_NEWEST_TASKS).tasks
            return [(task.id, f"{task.tool}, {task.status}") for task in tasks if task.id.startswith(incomplete)]
    except OutlastError:
        return []


def complete_asking(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Ids of tasks that begin so and wait for the caller's answer, other callers' too, with tool and question."""
    from outlast.client import OutlastError  # noqa: PLC0415 (httpx)

    try:
        with _client(ctx) as client:
            asking = {each.task_id: f"{each.tool}, {each.message.partition(chr(10))[0]}" for each in client.handoffs()}
            own = client.list_page(status="input_required", page_size=_NEWEST_TASKS).tasks
            asking |= {task.id: f"{task.tool}, {task.status}" for task in own if task.id not in asking}
            return [(task_id, words) for task_id, words in asking.items() if task_id.startswith(incomplete)]
    except OutlastError:
        return []


def _client(ctx: typer.Context) -> "Client":
    from outlast.client import Client, RetryPolicy, find_connection  # noqa: PLC0415 (httpx)

    connection = find_connection(ctx.params.get("url"), ctx.params.get("token"), ctx.params.get("data_dir"))
    no_retries = RetryPolicy(first_contact_seconds=0, request_seconds=0)
    return Client(connection=connection, timeout_seconds=_SECONDS, retries=no_retries)
