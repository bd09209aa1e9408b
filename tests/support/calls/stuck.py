"""Makes workflows stuck as they may become in use: what they read is of another version, in every attempt."""

from temporalio.client import Client

from tests.support.eventually import eventually

OF_ANOTHER_VERSION = "of another version"


async def poison(temporal: Client, workflow_id: str, activity_type: str) -> None:
    """Complete a pending activity of a workflow with a result that its workflow cannot read."""

    async def is_pending() -> tuple[str, str] | None:
        description = await temporal.get_workflow_handle(workflow_id).describe()
        for one in description.raw_description.pending_activities:
            if one.activity_type.name == activity_type:
                return description.run_id or "", one.activity_id
        return None

    run_id, activity_id = await eventually(is_pending)
    pending = temporal.get_async_activity_handle(workflow_id=workflow_id, run_id=run_id, activity_id=activity_id)
    await pending.complete(OF_ANOTHER_VERSION)
