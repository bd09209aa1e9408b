"""One task: timeline, input, rows, log, answer and deliveries; cancel it, answer it, and settle an unknown outcome."""

import json
from collections.abc import Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, cast

from pydantic import JsonValue

from outlast.activities.contracts import Caller
from outlast.api.console.fields import document_of, fields_of
from outlast.api.console.framework import Context, View
from outlast.api.console.tasks import section
from outlast.api.errors import ApiError, BadRequest, NoRows, TaskNotFound
from outlast.api.tasks.live_rows import RowChunk
from outlast.api.temporal.errors import temporal_errors
from outlast.api.temporal.task_events import task_events
from outlast.contracts.tasks import ResolveRequest, ResurrectRequest, Task, TaskEvent
from outlast.workflows.contracts.questions import InputAnswer, InputRequest
from outlast.workflows.contracts.tool_calls import ToolResult

_TABS = ("timeline", "rows", "answer")
_SHOWN_ROWS = 50
_MAX_EVENTS = 200
_NAMES = {"task_completed": "task ended", "isomorphic_handoff": "question asked", "input_required": "question asked"}
_HIDDEN = frozenset({"input_required"})
"""Comes with `isomorphic_handoff`."""


@dataclass(frozen=True)
class Step:
    """One event on the timeline. `place` is its position in percent of the whole time."""

    name: str
    seconds: float
    place: float
    words: str
    is_bad: bool


@section.page("tasks/{task_id}", "task.html", live=("head", "body"))
async def task(view: View) -> Context:
    """A task, with one of its tabs."""
    task_id, tab = view.of_path("task_id"), view.of_query("tab") or _TABS[0]
    if tab not in _TABS:
        raise BadRequest(f"There is no tab {tab[:50]!r}.")
    owner = await view.once("owner", partial(view.services.tasks.readable_by, view.principal, task_id, "page"))
    try:
        found, is_readable = await view.services.tasks.describe(owner, task_id), True
    except TaskNotFound:
        found, is_readable = await view.services.tasks.look_at(view.principal, task_id), False
    context: dict[str, object] = {"task": found, "tab": tab, "tabs": _TABS, "is_readable": is_readable}
    if is_readable:
        context |= await _tab(view, owner, found, tab)
    hint = await view.once("hint", partial(_hint, view, owner, found)) if is_readable and found.error else None
    return {
        **context,
        "hint": hint,
        "questions": [_question(view, key, one) for key, one in (found.input_requests or {}).items()],
        "is_mine": owner.id == view.caller.id,
        "title": f"{found.actor or found.tool}: {found.status}",
    }


async def _tab(view: View, owner: Caller, found: Task, tab: str) -> Mapping[str, object]:
    match tab:
        case "timeline":
            context: dict[str, object] = {"steps": await _steps(view, found, view.console.now())}
            return {**context, **await _answer(view, owner, found), **await _rows(view, owner, found, limit=5)}
        case "rows":
            return await _rows(view, owner, found, limit=_SHOWN_ROWS)
        case _:
            return await _answer(view, owner, found)


async def _steps(view: View, found: Task, now: datetime) -> list[Step]:
    events: list[TaskEvent] = []
    with temporal_errors():
        async with aclosing(task_events(view.services.tasks.client, found.id, wait=False)) as stream:
            async for event in stream:
                if event.name not in _HIDDEN and len(events) < _MAX_EVENTS:
                    events.append(event)
    began = events[0].time if events and events[0].time else found.created_at
    whole = max(((found.finished_at or now) - began).total_seconds(), 0.001)
    steps: list[Step] = []
    for event in events:
        after = (event.time - began).total_seconds() if event.time else 0.0
        name = _NAMES.get(event.name, event.name.replace("_", " "))
        is_bad = bool(
            event.data.get("is_error") or event.data.get("status") in ("failed", "FAILED", "ABORTED", "TIMED-OUT")
        )
        steps.append(Step(name, after, min(round(100 * after / whole, 2), 100.0), _words(event), is_bad))
    return steps


def _words(event: TaskEvent) -> str:
    data = event.data
    if event.name == "input_answered":
        said = [data.get("decision") or data.get("action"), data.get("note"), f"by {data.get('answered_by')}"]
        return " · ".join(str(one) for one in said if one)
    shown = (data.get("status_message"), data.get("message"), data.get("run_id"))
    return " · ".join(str(one) for one in shown if one)


async def _answer(view: View, owner: Caller, found: Task) -> dict[str, ToolResult | None]:
    if not found.answered:
        return {"answer": None}
    return {"answer": (await view.services.tasks.answer(owner, found.id)).result}


async def _hint(view: View, owner: Caller, found: Task) -> str | None:
    """What to do about the error of a failed task."""
    result = (await _answer(view, owner, found))["answer"]
    return result.error.hint if result is not None and result.error is not None else None


async def _rows(view: View, owner: Caller, found: Task, *, limit: int) -> dict[str, object]:
    """The first rows so far, with the columns that they have; `rows_problem` if they cannot be read."""
    rows: list[dict[str, JsonValue]] = []
    problem: str | None = None
    try:
        if found.run is None and found.finished_at is None:
            raise NoRows("The task has started no run yet.")
        async with aclosing(await view.services.task_rows.stream(owner, found.id, follow=False)) as stream:
            async for part in stream:
                if isinstance(part, RowChunk):
                    rows += [row_of(line) for _, line in part.rows()]
                if len(rows) > limit:
                    break
    except NoRows:
        pass
    except ApiError as error:
        problem = str(error)
    columns = list(dict.fromkeys(name for row in rows[:limit] for name in row))
    return {"rows": rows[:limit], "columns": columns[:12], "more_rows": len(rows) > limit, "rows_problem": problem}


def row_of(line: bytes) -> dict[str, JsonValue]:
    """A row as an object, from its line of JSON."""
    document: object = json.loads(line)
    return (
        cast("dict[str, JsonValue]", document) if isinstance(document, dict) else {"value": cast(JsonValue, document)}
    )


def _question(view: View, key: str, one: InputRequest) -> dict[str, object]:
    """A question with what its form needs; `may` tells whether the viewer can answer it."""
    handoff = one.handoff
    maker = handoff.maker if handoff is not None else None
    is_own_approval = handoff is not None and bool(handoff.approvers) and maker == view.caller.id
    may = view.may("approve") if one.is_approval else view.may("call") and not one.is_for_program
    return {
        "key": key,
        "about": one,
        "arguments": handoff.parameters if handoff is not None else {},
        "deadline": handoff.deadline if handoff is not None else None,
        "may": may and not is_own_approval,
        "is_own_approval": is_own_approval,
        "fields": [] if one.is_approval else fields_of(one.requested_schema),
    }


@section.action("tasks/{task_id}/cancel", "cancel")
async def cancel(view: View) -> str:
    """Cancel a task."""
    task_id = view.of_path("task_id")
    await view.services.tasks.cancel_by(view.principal, task_id)
    return f"tasks/{task_id}"


@section.action("tasks/{task_id}/answer", "call", "approve")
async def answer(view: View) -> str:
    """Answer a question: approve or refuse a call, or fill a form."""
    task_id, key, decision = view.of_path("task_id"), view.form.text("key"), view.form.text("decision")
    if decision in ("yes", "no"):
        note = view.form.text("note")
        given = InputAnswer(content={"decision": decision, **({"note": note} if note else {})})
    elif decision == "decline":
        given = InputAnswer(action="decline")
    else:
        shown = await view.services.tasks.look_at(view.principal, task_id)
        question = (shown.input_requests or {}).get(key)
        given = InputAnswer(content=document_of(question.requested_schema, view.form) if question is not None else {})
    await view.services.tasks.submit_input(view.principal, task_id, {key: given})
    return view.form.text("back") if view.form.text("back") == "approvals" else f"tasks/{task_id}"


@section.action("tasks/{task_id}/resolve", "call")
async def resolve(view: View) -> str:
    """Record what was found out about a call whose outcome is unknown."""
    task_id, result = view.of_path("task_id"), view.form.text("result")
    fields: dict[str, Any] = {"outcome": view.form.text("outcome"), "note": view.form.text("note") or None}
    if result and fields["outcome"] == "done":
        with suppress(ValueError):
            result = json.loads(result)
        fields["result"] = result
    resolved = await view.services.resolutions.resolve(view.caller, task_id, ResolveRequest.model_validate(fields))
    again = resolved.resolution.task_id if resolved.resolution is not None else None
    return f"tasks/{again or task_id}"


@section.action("tasks/{task_id}/resurrect", "call")
async def resurrect(view: View) -> str:
    """Continue the run of an ended task in a new task."""
    task_id = view.of_path("task_id")
    request = ResurrectRequest.model_validate({"force": view.form.text("force") == "true"})
    return f"tasks/{(await view.services.resurrections.resurrect(view.caller, task_id, request)).id}"
