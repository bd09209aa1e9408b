"""What a schedule runs: from the form of the tools to that of the platform's API, and back."""

import json
from typing import Any, cast

from pydantic import JsonValue

from outlast.activities.contracts import JsonObject

RUN_ACTOR, RUN_TASK = "RUN_ACTOR", "RUN_ACTOR_TASK"
_OPTIONS = ("build", "timeoutSecs", "memoryMbytes", "restartOnError")
_JSON = "application/json; charset=utf-8"
MAX_OF_A_KIND = 10
INPUT_TEXTS = ("actions/*/runInput/body",)
"""The API takes an Actor's input as a text. It is sealed until the request is sent, which makes it one."""


def problem_of(actions: list[dict[str, Any]]) -> str | None:
    """Why the platform would refuse these actions, as a sentence; None when it would not."""
    for number, action in enumerate(actions):
        if bool(action.get("actorId")) == bool(action.get("taskId")):
            return f"/actions/{number}: give actorId or taskId, one of them."
        if action.get("taskId") and any(name in action for name in _OPTIONS):
            return f"/actions/{number}: {', '.join(_OPTIONS)} go with actorId only; a task has its own."
    for name in ("actorId", "taskId"):
        if sum(name in action for action in actions) > MAX_OF_A_KIND:
            return f"/actions: at most {MAX_OF_A_KIND} with {name}."
    return None


def as_sent(action: dict[str, Any], target: str) -> JsonObject:
    """An action in the form of the API; `target` is the id of its Actor or task."""
    if action.get("taskId"):
        saved: JsonObject = {"type": RUN_TASK, "actorTaskId": target}
        return {**saved, "input": action["input"]} if "input" in action else saved
    options: JsonObject = {name: action[name] for name in _OPTIONS if name in action}
    sent: JsonObject = {"type": RUN_ACTOR, "actorId": target}
    if "input" in action:
        sent["runInput"] = {"body": action["input"], "contentType": _JSON}
    return {**sent, "runOptions": options} if options else sent


def as_shown(action: JsonObject) -> JsonObject:
    """An action of the API in the form of the tools; an input that is no JSON is a text."""
    if action.get("type") == RUN_TASK:
        shown: dict[str, JsonValue] = {"taskId": action.get("actorTaskId"), "input": action.get("input")}
    else:
        options = cast("dict[str, JsonValue]", action.get("runOptions") or {})
        shown = {"actorId": action.get("actorId"), "input": _input_of(action.get("runInput"))}
        shown |= {name: options.get(name) for name in _OPTIONS}
    return {name: value for name, value in shown.items() if value is not None}


def _input_of(written: JsonValue) -> JsonValue:
    body = written.get("body") if isinstance(written, dict) else None
    if not isinstance(body, str):
        return None
    try:
        return json.loads(body)
    except ValueError:
        return body
