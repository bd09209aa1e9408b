"""Which worker does what: read from Temporal, by the identities of the workers."""

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import ActivityTaskStartedEventAttributes
from temporalio.client import Client

from tests.support.eventually import eventually
from tests.support.processes.module_process import ModuleProcess
from tests.support.stacks.chaos_stack import Part

FOLLOW = "wait_for_run"


def works_in(identity: str, part: Part) -> bool:
    """Whether a worker of this identity (`PID@HOST/XXXX`) is that process."""
    assert isinstance(part.process, ModuleProcess)
    return identity.startswith(f"{part.process.pid}@")


async def follower(client: Client, task_id: str) -> str:
    """The identity of the worker that follows the task's run."""

    async def known() -> str | None:
        described = await client.get_workflow_handle(task_id).describe()
        pending = described.raw_description.pending_activities
        return next((one.last_worker_identity for one in pending if one.activity_type.name == FOLLOW), None)

    return await eventually(known)


async def attempts(client: Client, task_id: str) -> dict[str, ActivityTaskStartedEventAttributes]:
    """The attempt of each activity that ended it."""
    names: dict[int, str] = {}
    started: dict[str, ActivityTaskStartedEventAttributes] = {}
    async for event in client.get_workflow_handle(task_id).fetch_history_events():
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
            names[event.event_id] = event.activity_task_scheduled_event_attributes.activity_type.name
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_STARTED:
            attributes = event.activity_task_started_event_attributes
            started[names[attributes.scheduled_event_id]] = attributes
    return started
