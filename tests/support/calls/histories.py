"""Histories of workflows, over all their runs, and what their payloads say."""

import base64
from collections.abc import Iterator

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client


async def whole_history(temporal: Client, workflow_id: str) -> list[HistoryEvent]:
    """The events of a workflow, those before it continued as new included."""
    described = await temporal.get_workflow_handle(workflow_id).describe()
    run_id = described.raw_description.workflow_execution_info.first_run_id
    found: list[HistoryEvent] = []
    while run_id:
        events = (await temporal.get_workflow_handle(workflow_id, run_id=run_id).fetch_history()).events
        found += events
        is_continued = events[-1].event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW
        followed_by = events[-1].workflow_execution_continued_as_new_event_attributes.new_execution_run_id
        run_id = followed_by if is_continued else ""
    return found


async def payloads_of(temporal: Client, workflow_id: str) -> str:
    """All that the payloads of a workflow's latest run say: arguments, results, memo, search attributes."""
    history = (await temporal.get_workflow_handle(workflow_id).fetch_history()).to_json_dict()
    return "\n".join(_payloads_in(history))


def _payloads_in(document: object) -> Iterator[str]:
    if isinstance(document, dict):
        for name, part in document.items():
            if name == "data" and isinstance(part, str):
                yield base64.b64decode(part).decode(errors="replace")
            else:
                yield from _payloads_in(part)
    elif isinstance(document, list):
        for part in document:
            yield from _payloads_in(part)
