"""Lists from Temporal's visibility: queries, pages, and page tokens bound to one query; lookups of single workflows."""

import base64
import binascii
import hashlib
import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from pydantic import JsonValue
from temporalio.client import Client, WorkflowExecution, WorkflowExecutionDescription, WorkflowExecutionStatus
from temporalio.common import SearchAttributeKey
from temporalio.service import RPCError, RPCStatusCode

from outlast.activities.batches.contracts import BATCH_WORKFLOW
from outlast.activities.contracts import Caller
from outlast.activities.schedules.contracts import FIRING_WORKFLOW
from outlast.activities.webhooks.contracts import DELIVERY_WORKFLOW, TEST_EVENT_PREFIX, deliveries_prefix
from outlast.api.errors import ApiError, BadRequest
from outlast.api.temporal.errors import temporal_errors
from outlast.api.temporal.history_details import SESSION_WORKFLOW, TASK_WORKFLOW
from outlast.api.temporal.task_view import owner_of
from outlast.contracts.tasks import TaskListing
from outlast.contracts.webhooks import ListedStatus
from outlast.workflows.contracts import search_attributes
from outlast.workflows.contracts.tool_calls import TaskStatus

_DIGEST_BYTES = 8
_OPEN = "ExecutionStatus = 'Running'"
_DELIVERIES: dict[ListedStatus, str] = {
    "delivering": _OPEN,
    "delivered": "ExecutionStatus = 'Completed'",
    "undelivered": "ExecutionStatus IN ('Failed', 'Canceled', 'Terminated', 'TimedOut')",
}


def list_query(caller_id: str | None, listing: TaskListing) -> str:
    """The visibility query (Temporal list filter) for the tasks of a caller, or of all for None.

    Raises `BadRequest` for an invalid value.
    """
    wanted = {
        search_attributes.TOOL: listing.tool,
        search_attributes.ACTOR: listing.actor,
        search_attributes.RUN_ID: listing.run_id,
        search_attributes.SESSION: listing.session_id,
        search_attributes.BATCH: listing.batch_id,
        search_attributes.SCHEDULE: listing.schedule_id,
    }
    given = [_equals(key, value) for key, value in wanted.items() if value is not None]
    states = tuple(dict.fromkeys(listing.status))
    parts = [_tasks_of(caller_id, but_few=states == (TaskStatus.CANCELLED,) or bool(given))]
    if states:
        queries = [_status_query(state) for state in states]
        parts.append(queries[0] if len(queries) == 1 else f"({' OR '.join(queries)})")
    if listing.since is not None:
        parts.append(f"({_OPEN} OR CloseTime >= '{_written(listing.since)}')")
    if listing.until is not None:
        until = _written(listing.until)
        parts.append(f"(({_OPEN} AND StartTime <= '{until}') OR CloseTime <= '{until}')")
    return " AND ".join(parts + given)


def batches_query(caller_id: str | None, *, only_open: bool, schedule_id: str | None = None) -> str:
    """The query for the batches of a caller, or of all, or for those that one of its schedules has started."""
    own = _workflows_of(BATCH_WORKFLOW, caller_id)
    if schedule_id is not None:
        own += f" AND {_equals(search_attributes.SCHEDULE, schedule_id)}"
    return f"{own} AND {_OPEN}" if only_open else f"{own} AND ExecutionStatus != 'ContinuedAsNew'"


def schedules_query(caller_id: str | None) -> str:
    """The query for the schedules of a caller, or of all."""
    if caller_id is None:
        return f"{search_attributes.CALLER.name} IS NOT NULL"
    return _equals(search_attributes.CALLER, caller_id)


def firings_query(temporal_id: str) -> str:
    """The query for the firings of a schedule, by its id in Temporal."""
    return f"WorkflowType = '{FIRING_WORKFLOW}' AND TemporalScheduledById = {_quoted(temporal_id)}"


def deliveries_query(caller_id: str | None, *, status: ListedStatus, webhook_id: str | None) -> str:
    """The query for deliveries of events to the webhooks of a caller, or of all, or to one of them."""
    parts = [_workflows_of(DELIVERY_WORKFLOW, caller_id), _DELIVERIES[status]]
    if webhook_id is not None:
        parts.append(f"WorkflowId STARTS_WITH {_quoted(deliveries_prefix(webhook_id))}")
    return " AND ".join(parts)


def tests_query(caller_id: str, webhook_ids: Iterable[str]) -> str:
    """The query for the `webhook.test` events that are being delivered to some of a caller's webhooks."""
    prefixes = (_quoted(f"{deliveries_prefix(one)}{TEST_EVENT_PREFIX}") for one in webhook_ids)
    of_one = " OR ".join(f"WorkflowId STARTS_WITH {prefix}" for prefix in prefixes)
    return f"{deliveries_query(caller_id, status='delivering', webhook_id=None)} AND ({of_one})"


def tasks_query(caller_id: str | None, status: TaskStatus) -> str:
    """The query for the tasks in a state, of one caller or of all."""
    return f"{_tasks_of(caller_id)} AND {_status_query(status)}"


def open_tasks_query(caller_id: str | None) -> str:
    """The query for the tasks whose workflow has not ended, of one caller or of all."""
    return f"{_tasks_of(caller_id)} AND {_OPEN}"


def ended_since(query: str, moment: datetime) -> str:
    """The query for those of these tasks whose workflow has ended since a moment."""
    return f"{query} AND CloseTime > '{_written(moment)}'"


def approvals_query(caller_id: str, roles: Iterable[str], *, tool: str | None) -> str:
    """The query for tasks of other callers that may wait for an approval by someone with one of `roles`."""
    named = ", ".join(_quoted(role) for role in sorted(roles))
    parts = [
        f"WorkflowType = '{TASK_WORKFLOW}'",
        f"{search_attributes.APPROVERS.name} IN ({named})",
        f"{search_attributes.CALLER.name} != {_quoted(caller_id)}",
        _status_query(TaskStatus.INPUT_REQUIRED),
    ]
    if tool is not None:
        parts.append(_equals(search_attributes.TOOL, tool))
    return " AND ".join(parts)


def near_deadline_query(now: datetime) -> str:
    """The query for tasks that wait for an answer and have little time left at `now`."""
    near = f"{search_attributes.NEAR_DEADLINE_AT.name} <= '{now.isoformat()}'"
    return f"{open_tasks_query(None)} AND {_status_query(TaskStatus.INPUT_REQUIRED)} AND {near}"


def running_tasks_query(caller_id: str, session_id: str) -> str:
    """The query for the tasks of a session whose workflow has not ended."""
    return f"{list_query(caller_id, TaskListing(session_id=session_id))} AND {_OPEN}"


def sessions_query(caller_id: str | None) -> str:
    """The query for the open sessions of a caller, or of all."""
    return f"{_workflows_of(SESSION_WORKFLOW, caller_id)} AND {_OPEN}"


async def page_of(
    client: Client, query: str, *, size: int, token: str | None
) -> tuple[Sequence[WorkflowExecution], str | None]:
    """A page of a list of workflows, and the token of the next page. Raises `BadRequest` for another list's token."""
    given = read_page_token(token, query) if token else None
    pages = client.list_workflows(query, page_size=size, next_page_token=given)
    with temporal_errors(invalid=old_page()):
        await pages.fetch_next_page(page_size=size)
    return pages.current_page or (), write_page_token(pages.next_page_token, query) if pages.next_page_token else None


def old_page() -> BadRequest:
    """The error for a page token that Temporal no longer accepts."""
    return BadRequest("The page token is no longer valid; list again from the first page.")


def write_page_token(token: bytes, query: str) -> str:
    """Temporal's page token with a check of its query, because Temporal retries for long on a broken token."""
    return base64.urlsafe_b64encode(_digest(query.encode()) + _digest(token) + token).decode()


def read_page_token(text: str, query: str) -> bytes:
    """Temporal's page token. Raises `BadRequest` for one that is malformed or belongs to another list."""
    try:
        raw = base64.urlsafe_b64decode(text.encode())
    except (binascii.Error, ValueError):
        raw = b""
    list_digest, digest, token = raw[:_DIGEST_BYTES], raw[_DIGEST_BYTES : 2 * _DIGEST_BYTES], raw[2 * _DIGEST_BYTES :]
    if digest != _digest(token):
        raise BadRequest("The page token is malformed; pass next_page_token of the previous page unchanged.")
    if list_digest != _digest(query.encode()):
        raise BadRequest("The page token belongs to another list; keep the filters the same from page to page.")
    return token


def _written(moment: datetime) -> str:
    """A time as Temporal's queries have it: in UTC, to the microsecond."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"


def _workflows_of(kind: str, caller_id: str | None) -> str:
    of_kind = f"WorkflowType = '{kind}'"
    return of_kind if caller_id is None else f"{of_kind} AND {_equals(search_attributes.CALLER, caller_id)}"


def _equals(key: SearchAttributeKey[str], value: str) -> str:
    return f"{key.name} = {_quoted(value)}"


def _tasks_of(caller_id: str | None, *, but_few: bool = False) -> str:
    """The condition for a caller's tasks, or all tasks. With `but_few`, another condition leaves few of them.

    The embedded server's database has an index for each attribute and takes one of them. Of two equal ones it took the
    caller's, and read all that the caller ever did; one that may have several values comes second.
    """
    kind = f"WorkflowType = '{TASK_WORKFLOW}'"
    if caller_id is None:
        return kind
    caller = _quoted(caller_id)
    return f"{kind} AND {search_attributes.CALLER.name} {f'IN ({caller}, {caller})' if but_few else f'= {caller}'}"


def _status_query(status: TaskStatus) -> str:
    recorded = f"{search_attributes.TASK_STATUS.name} = '{status.value}'"
    if status is TaskStatus.FAILED:
        ended_abnormally = "ExecutionStatus IN ('Failed', 'Terminated', 'TimedOut')"
        never_answered = f"{search_attributes.TASK_STATUS.name} IN ('queued', 'working', 'input_required')"
        return f"({recorded} OR ({never_answered} AND {ended_abnormally}))"
    if status is TaskStatus.COMPLETED:
        nothing_else = f"{search_attributes.TASK_STATUS.name} IN ('queued', 'working')"
        return f"({recorded} OR ({nothing_else} AND ExecutionStatus = 'Completed'))"
    return recorded if status.is_final else f"({recorded} AND {_OPEN})"


def _quoted(value: str) -> str:
    if not value.isprintable():
        raise BadRequest(
            f"No task has {value[:50]!r} as its tool, Actor, run, session, batch, schedule or caller: "
            "it has characters that none can have."
        )
    return search_attributes.quoted(value)


def _digest(value: bytes) -> bytes:
    return hashlib.sha256(value).digest()[:_DIGEST_BYTES]


def derived_id(prefix: str, *named: JsonValue, chars: int = 32) -> str:
    """An id that a repeated request gets again. It is a digest, so no key can be read in it.

    The digest is not keyed by the sealing ring: after a rotation, a repeated key would start, and pay for, a second
    task.
    """
    return f"{prefix}-{hashlib.sha256(json.dumps(named).encode()).hexdigest()[:chars]}"


async def owned(client: Client, workflow_id: str, caller: Caller, missing: ApiError) -> WorkflowExecutionDescription:
    """Describe a workflow of the caller. Raises `missing` if there is none, or it belongs to another caller."""
    with temporal_errors(missing=missing):
        description = await client.get_workflow_handle(workflow_id).describe()
    if owner_of(description) != caller.id:
        raise missing
    return description


async def is_running(client: Client, workflow_id: str) -> bool:
    """Return whether the workflow exists and has not ended. Raises `RPCError`."""
    try:
        description = await client.get_workflow_handle(workflow_id).describe()
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return False
    return description.status is WorkflowExecutionStatus.RUNNING
