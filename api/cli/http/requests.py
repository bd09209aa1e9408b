"""From what was typed to the body of a request."""

from typing import Any

from outlast.workflows.tools.core.actor_names import actor_tool_name, normalised_actor


def tool_name(name: str) -> str:
    """`outlast/sleeper` and `outlast~sleeper` are the direct tool of that Actor; tool names stay as they are."""
    actor = normalised_actor(name)
    return actor_tool_name(actor) if "/" in actor else name


def build_request(
    *,
    tool: str,
    arguments: dict[str, Any],
    mode: str | None = None,
    session: str | None = None,
    deadline_seconds: float | None = None,
    max_usd: float | None = None,
    max_items: int | None = None,
    max_run_seconds: float | None = None,
) -> dict[str, Any]:
    """The request for one call. What is missing in it, the server says."""
    budget = {
        "max_total_charge_usd": str(max_usd) if max_usd is not None else None,
        "max_items": max_items,
        "max_run_seconds": _whole(max_run_seconds),
    }
    options: dict[str, Any] = {"budget": _given(budget)}
    options |= {"deadline_seconds": _whole(deadline_seconds)} if deadline_seconds is not None else {}
    body = {"tool": tool_name(tool), "arguments": arguments, "mode": mode, "session_id": session, "options": options}
    return _given(body)


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _whole(seconds: float | None) -> int | None:
    return max(1, round(seconds)) if seconds is not None else None
