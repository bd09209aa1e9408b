"""Recorded histories whose first workflow task is prolonged before the local activity in it has ended.

Temporal's SDK does that after eight seconds, which only happens on a machine that cannot keep up. A replay takes the
task that was completed without commands and the one after it for one, so that it sees a longer history in the
workflow's first step than the step itself did.
"""

import json
from typing import Any

from tests.histories.commands import HISTORIES

Event = dict[str, Any]

BEFORE = 3
"""Events up to the start of the first workflow task."""


def with_local_start() -> list[str]:
    """Names of the histories in which the first workflow task has a local activity, and nothing else before it."""
    names = sorted(f"{path.parent.name}/{path.stem}" for path in HISTORIES.glob("*/*.json"))
    return [name for name in names if _starts_locally(_events(name))]


def heartbeated(name: str) -> list[Event]:
    """The events of a recorded history, with the first workflow task prolonged once."""
    events = _events(name)
    began, completed = events[BEFORE - 1], events[BEFORE]
    flags = completed["workflowTaskCompletedEventAttributes"].get("sdkMetadata", {})
    prolonged = [
        _event(4, began, "COMPLETED", scheduledEventId="2", startedEventId="3", sdkMetadata=flags),
        _event(5, began, "SCHEDULED", startToCloseTimeout="10s", attempt=1),
        _event(6, began, "STARTED", scheduledEventId="5"),
    ]
    rest: list[Event] = [_moved(event, len(prolonged)) for event in events[BEFORE:]]
    rest[0]["workflowTaskCompletedEventAttributes"].update(scheduledEventId="5", startedEventId="6")
    return [*events[:BEFORE], *prolonged, *rest]


def _events(name: str) -> list[Event]:
    return json.loads((HISTORIES / f"{name}.json").read_text())["history"]["events"]


def _starts_locally(events: list[Event]) -> bool:
    kinds = [event["eventType"].removeprefix("EVENT_TYPE_") for event in events[BEFORE : BEFORE + 2]]
    workflow = events[0]["workflowExecutionStartedEventAttributes"]["workflowType"]["name"]
    return workflow == "ToolCallWorkflow" and kinds == ["WORKFLOW_TASK_COMPLETED", "MARKER_RECORDED"]


def _event(number: int, like: Event, kind: str, **attributes: Any) -> Event:
    name = f"workflowTask{kind.title()}EventAttributes"
    return {
        "eventId": str(number),
        "eventTime": like["eventTime"],
        "eventType": f"EVENT_TYPE_WORKFLOW_TASK_{kind}",
        name: attributes,
    }


def _moved(part: Any, by: int) -> Any:
    """With the numbers of later events, and of what refers to them, so much higher."""
    if isinstance(part, list):
        return [_moved(one, by) for one in part]
    if isinstance(part, dict):
        return {key: _number(value, by) if _is_number(key, value) else _moved(value, by) for key, value in part.items()}
    return part


def _is_number(key: str, value: Any) -> bool:
    return key.lower().endswith("eventid") and isinstance(value, str) and value.isdigit()


def _number(value: str, by: int) -> str:
    return str(int(value) + by) if int(value) > BEFORE else value
