"""Actions of a schedule: between the platform's API and the modes, which name things in their own ways."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

from pydantic import JsonValue

from outlast.activities.contracts import JsonObject

RUN_ACTOR, RUN_TASK = "RUN_ACTOR", "RUN_ACTOR_TASK"
OPTIONS = ("build", "timeoutSecs", "memoryMbytes", "restartOnError")
_JSON = "application/json; charset=utf-8"
MAX_OF_A_KIND = 10
INPUT_TEXTS = ("actions/*/runInput/body",)
"""The API takes an Actor's input as a text. It is sealed until the request is sent, which makes it one."""


@dataclass(frozen=True)
class ArgumentNames:
    """What a mode calls the arguments that name what a schedule runs, for its errors."""

    actor: str
    task: str


@dataclass(frozen=True)
class ScheduledRun:
    """One action of a schedule: an Actor or a saved task, as the caller has named it, and how it is run."""

    actor: str | None = None
    task: str | None = None
    input: JsonValue = None
    has_input: bool = False
    options: JsonObject = field(default_factory=dict[str, JsonValue])
    """Those of `OPTIONS` that were given, under the platform's names."""
    names: ArgumentNames = ArgumentNames("actorId", "taskId")


def problem_of(runs: Sequence[ScheduledRun]) -> str | None:
    """Why the platform would refuse these, as a sentence; None when it would not."""
    for number, run in enumerate(runs):
        if bool(run.actor) == bool(run.task):
            return f"/actions/{number}: give {run.names.actor} or {run.names.task}, one of them."
        if run.task and run.options:
            return f"/actions/{number}: options of a run go with {run.names.actor} only; a task has its own."
    for kind, count in (
        ("an Actor", sum(bool(run.actor) for run in runs)),
        ("a task", sum(bool(r.task) for r in runs)),
    ):
        if count > MAX_OF_A_KIND:
            return f"/actions: at most {MAX_OF_A_KIND} may run {kind}."
    return None


def as_sent(run: ScheduledRun, target: str) -> JsonObject:
    """An action in the form of the API; `target` is the id of its Actor or task."""
    if run.task:
        saved: JsonObject = {"type": RUN_TASK, "actorTaskId": target}
        return {**saved, "input": run.input} if run.has_input else saved
    sent: JsonObject = {"type": RUN_ACTOR, "actorId": target}
    if run.has_input:
        sent["runInput"] = {"body": run.input, "contentType": _JSON}
    return {**sent, "runOptions": run.options} if run.options else sent


def as_read(schedule: JsonObject) -> list[ScheduledRun]:
    """What a schedule of the API runs; an input that is no JSON is a text."""
    actions = schedule.get("actions")
    return [_run(action) for action in actions if isinstance(action, dict)] if isinstance(actions, list) else []


def _run(action: JsonObject) -> ScheduledRun:
    if action.get("type") == RUN_TASK:
        given = action.get("input")
        return ScheduledRun(task=str(action.get("actorTaskId")), input=given, has_input=given is not None)
    given, options = _input_of(action.get("runInput")), cast("JsonObject", action.get("runOptions") or {})
    kept: JsonObject = {name: options[name] for name in OPTIONS if options.get(name) is not None}
    return ScheduledRun(str(action.get("actorId")), input=given, has_input=given is not None, options=kept)


def _input_of(written: JsonValue) -> JsonValue:
    body = written.get("body") if isinstance(written, dict) else None
    if not isinstance(body, str):
        return None
    try:
        return json.loads(body)
    except ValueError:
        return body
