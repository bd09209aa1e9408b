"""A worker that polls nothing: it carries out the first step of calls that its own process starts.

With an eager start (`start_workflow(request_eager_start=True)`) Temporal's answer to the start brings the first
workflow task along. Nothing is matched, nothing is polled, and one transaction of the server's is saved. A quick call
has no other task. Whatever comes later, or after this process died, is the work of the workers that poll.
"""

import asyncio
import threading
from dataclasses import dataclass

from temporalio.client import Client
from temporalio.worker import (
    CustomSlotSupplier,
    FixedSizeSlotSupplier,
    SlotMarkUsedContext,
    SlotPermit,
    SlotReleaseContext,
    SlotReserveContext,
    UnsandboxedWorkflowRunner,
    Worker,
    WorkerTuner,
)

from outlast.activities.local_reads import LOCAL_READ_LIMIT, LocalReads
from outlast.activities.object_store.large_inputs import KeptParts
from outlast.activities.platform.apify_platform import ApifyPlatform
from outlast.activities.runs.activities import RunActivities
from outlast.activities.spending.ledger import Ledgers
from outlast.worker.connection import output_objects, sealer_from
from outlast.worker.eager.read_ahead import ReadAhead
from outlast.worker.platform_reads import platform_reads
from outlast.worker.settings import Settings
from outlast.workflows.contracts.queues import TOOLS_TASK_QUEUE
from outlast.workflows.tool_call import ToolCallWorkflow

_CACHED_PER_SLOT = 4
"""Calls under way have a slot each. The others in memory have gone over to a worker, which their end does not tell."""


class EagerSlots(CustomSlotSupplier):
    """Slots for tasks that come with the answer to a start, and none for tasks that are polled."""

    def __init__(self, slots: int) -> None:
        """Have at most `slots` in use. A start that finds none is an ordinary one."""
        self._free = threading.BoundedSemaphore(slots)

    async def reserve_slot(self, ctx: SlotReserveContext) -> SlotPermit:  # noqa: ARG002 (the SDK's interface)
        """Let every poll wait for ever. Ends when the worker stops."""
        await asyncio.Event().wait()
        raise AssertionError("nobody sets this event")

    def try_reserve_slot(self, ctx: SlotReserveContext) -> SlotPermit | None:  # noqa: ARG002 (the SDK's interface)
        """A slot for an eager task, if one is free."""
        return SlotPermit() if self._free.acquire(blocking=False) else None

    def mark_slot_used(self, ctx: SlotMarkUsedContext) -> None:
        """Nothing to do: a slot counts from when it was reserved."""

    def release_slot(self, ctx: SlotReleaseContext) -> None:  # noqa: ARG002 (the SDK's interface)
        """The task has ended, or none came with the start."""
        self._free.release()


@dataclass(frozen=True)
class EagerWorker:
    """The worker, and what begins the reads of its calls."""

    worker: Worker
    ahead: ReadAhead


def eager_worker(client: Client, settings: Settings, *, slots: int) -> EagerWorker:
    """Carries out the first step of at most `slots` calls at once that `client` starts eagerly on the tools' queue.

    It does nothing that is paid and nothing that takes long: it has the quick reads of the platform only, as local
    activities. `client` must be connected, not lazy. Raises `SealError` without a key ring, and `ValueError` when the
    output store's address cannot be one.
    """
    platform = ApifyPlatform(
        api_base_url=settings.apify_api_base_url,
        operator_token=settings.apify_token,
        sealer=sealer_from(settings),
        kept=KeptParts(output_objects(settings), namespace=client.namespace),
    )
    runs = RunActivities(platform, Ledgers(client, task_queue=TOOLS_TASK_QUEUE), console_url=settings.console)
    reads = platform_reads(platform)
    ahead = ReadAhead(reads, at_once=slots)
    worker = Worker(
        client,
        task_queue=TOOLS_TASK_QUEUE,
        workflows=[ToolCallWorkflow],
        activities=[runs.get_run, *reads],
        no_remote_activities=True,
        # A sandbox per call takes more than a millisecond. It would guard tools of other packages, which are no quick
        # reads; those of Outlast are run in it by all other workers, and in their tests.
        workflow_runner=UnsandboxedWorkflowRunner(),
        # One caller may have half of the reads, and as many as there are slots: a call that finds no slot starts the
        # normal way.
        interceptors=[LocalReads(2 * slots), ahead],
        tuner=WorkerTuner.create_composite(
            workflow_supplier=EagerSlots(slots),
            activity_supplier=FixedSizeSlotSupplier(1),
            local_activity_supplier=FixedSizeSlotSupplier(4 * slots),
            nexus_supplier=FixedSizeSlotSupplier(1),
        ),
        # With none, the SDK gives up the calls under way when one more begins, and they wait for their task's time-out.
        max_cached_workflows=_CACHED_PER_SLOT * slots,
        max_concurrent_workflow_task_polls=2,
        graceful_shutdown_timeout=LOCAL_READ_LIMIT,
    )
    return EagerWorker(worker, ahead)
