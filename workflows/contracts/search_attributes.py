"""Search attributes with which operators and task lists find tasks, and the sweep finds the outputs they refer to."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from temporalio.common import (
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
)

from outlast.activities.batches.contracts import BATCH_ATTRIBUTE
from outlast.activities.outputs.output_format import REFERENCES_ATTRIBUTE, references_in
from outlast.activities.schedules.contracts import SCHEDULE_ATTRIBUTE
from outlast.workflows.contracts.tool_calls import TaskStatus, TaskSummary, ToolCall

TOOL = SearchAttributeKey.for_keyword("OutlastTool")
ACTOR = SearchAttributeKey.for_keyword("OutlastActor")
RUN_ID = SearchAttributeKey.for_keyword("OutlastRunId")
EXECUTOR = SearchAttributeKey.for_keyword("OutlastExecutor")
TASK_STATUS = SearchAttributeKey.for_keyword("OutlastTaskStatus")
CALLER = SearchAttributeKey.for_keyword("OutlastCaller")
SESSION = SearchAttributeKey.for_keyword("OutlastSession")
BATCH = SearchAttributeKey.for_keyword(BATCH_ATTRIBUTE)
"""The id of a batch, on its workflow and on those of its items."""
SCHEDULE = SearchAttributeKey.for_keyword(SCHEDULE_ATTRIBUTE)
"""The id of a schedule, as its caller named it, on its firings and on the tasks and batches that they started."""

REUSE = SearchAttributeKey.for_keyword("OutlastReuse")
"""Digest of a call whose answer identical calls may reuse; absent if they may not."""

RELEASED_AT = SearchAttributeKey.for_datetime("OutlastReleasedAt")
"""Release time of a task that was queued."""
NEAR_DEADLINE_AT = SearchAttributeKey.for_datetime("OutlastNearDeadlineAt")
"""When little is left of the time to answer the call's open question: a fifth of it. Unset while nothing closes."""
LOCATORS = SearchAttributeKey.for_keyword_list(REFERENCES_ATTRIBUTE)
"""Short names of the stored outputs in a call's arguments, see `activities.outputs.format.locators`."""

APPROVERS = SearchAttributeKey.for_keyword_list("OutlastApprovers")
"""Roles of the callers who may approve the call, where that is not its own caller."""

ALL: Sequence[SearchAttributeKey[str]] = (
    TOOL,
    ACTOR,
    RUN_ID,
    EXECUTOR,
    TASK_STATUS,
    CALLER,
    SESSION,
    REUSE,
    BATCH,
    SCHEDULE,
)
"""Search attributes of type Keyword."""
DATETIMES: Sequence[SearchAttributeKey[datetime]] = (RELEASED_AT, NEAR_DEADLINE_AT)
KEYWORD_LISTS: Sequence[SearchAttributeKey[Sequence[str]]] = (LOCATORS, APPROVERS)


def of_session(caller_id: str, session_id: str) -> TypedSearchAttributes:
    """The search attributes of a session."""
    return TypedSearchAttributes([SearchAttributePair(CALLER, caller_id), SearchAttributePair(SESSION, session_id)])


def of_dispatcher(caller_id: str) -> TypedSearchAttributes:
    """The search attributes of the dispatcher of a caller's queued tasks."""
    return TypedSearchAttributes([SearchAttributePair(CALLER, caller_id)])


def of_delivery(caller_id: str) -> TypedSearchAttributes:
    """The search attributes of the delivery of an event to a webhook."""
    return TypedSearchAttributes([SearchAttributePair(CALLER, caller_id)])


def of_batch(caller_id: str, batch_id: str, tool: str, schedule_id: str | None = None) -> TypedSearchAttributes:
    """The search attributes of a batch's own workflow; `schedule_id` where a schedule has started it."""
    pairs = [(CALLER, caller_id), (BATCH, batch_id), (TOOL, tool)]
    pairs += [(SCHEDULE, schedule_id)] if schedule_id is not None else []
    return TypedSearchAttributes([SearchAttributePair(key, value) for key, value in pairs])


def of_schedule(caller_id: str, schedule_id: str) -> TypedSearchAttributes:
    """The search attributes of a schedule, and of its firings."""
    pairs = [(CALLER, caller_id), (SCHEDULE, schedule_id)]
    return TypedSearchAttributes([SearchAttributePair(key, value) for key, value in pairs])


def query_of_session(caller_id: str, session_id: str) -> str:
    """Temporal's list filter for a session and its turns and tasks."""
    return f"{CALLER.name} = {quoted(caller_id)} AND {SESSION.name} = {quoted(session_id)}"


def query_of_equal_calls(digest: str) -> str:
    """Temporal's list filter for the tasks of calls that are equal."""
    return f"WorkflowType = 'ToolCallWorkflow' AND {REUSE.name} = {quoted(digest)}"


def quoted(value: str) -> str:
    """A value in a list filter."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def of_task(
    call: ToolCall,
    summary: TaskSummary,
    references: Sequence[str] | None = None,
    *,
    status: TaskStatus = TaskStatus.WORKING,
    reuse: str | None = None,
) -> TypedSearchAttributes:
    """The search attributes with which every task starts.

    `references` are those of all its arguments, when the call itself has only marks of some. `reuse` is the digest of a
    call that equal ones may meet.
    """
    pairs: list[SearchAttributePair[Any]] = [
        SearchAttributePair(TOOL, call.tool),
        SearchAttributePair(EXECUTOR, summary.executor),
        SearchAttributePair(TASK_STATUS, status.value),
        SearchAttributePair(CALLER, call.caller.id),
    ]
    if summary.actor is not None:
        pairs.append(SearchAttributePair(ACTOR, summary.actor))
    if call.session_id is not None:
        pairs.append(SearchAttributePair(SESSION, call.session_id))
    if call.batch_id is not None:
        pairs.append(SearchAttributePair(BATCH, call.batch_id))
    if call.schedule_id is not None:
        pairs.append(SearchAttributePair(SCHEDULE, call.schedule_id))
    locators = references_in(json.dumps(call.arguments)) if references is None else references
    if locators:
        pairs.append(SearchAttributePair(LOCATORS, locators))
    if reuse is not None:
        pairs.append(SearchAttributePair(REUSE, reuse))
    if call.permission is not None and call.permission.approvers:
        pairs.append(SearchAttributePair(APPROVERS, call.permission.approvers))
    return TypedSearchAttributes(pairs)
