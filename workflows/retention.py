"""RetentionWorkflow: removes stored outputs that have expired. A Temporal Schedule starts it: worker/sweep_schedule."""

from pydantic import Field
from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from outlast.activities.outputs.sweep import (
        SWEEP_ATTEMPT_TIMEOUT,
        SWEEP_HEARTBEAT_TIMEOUT,
        SWEEP_RETRY_POLICY,
        OutputSweepActivities,
    )

from outlast.activities.contracts import Contract
from outlast.activities.outputs.contracts import SweepInput, SweepReport
from outlast.workflows.contracts.queues import OUTPUTS_TASK_QUEUE


class RetentionInput(Contract):
    """Options of the sweep, and the report of earlier runs of the same sweep."""

    page_size: int = Field(default=500, ge=1, le=1_000, description="Objects looked at per activity, or a scope more.")
    pages_per_run: int = Field(default=100, ge=1, description="Then the workflow continues as new.")
    so_far: SweepReport = SweepReport()


@workflow.defn
class RetentionWorkflow:
    """Sweeps the whole store once. Its result is the report on all of it."""

    @workflow.run
    async def run(self, sweep: RetentionInput) -> SweepReport:
        """Sweep page by page. Fails when a page fails; the next sweep starts from the beginning."""
        so_far = sweep.so_far
        for number in range(sweep.pages_per_run):
            so_far = _sum(so_far, await self._page(sweep, so_far.cursor, number))
            if so_far.cursor is None:
                return so_far
        return workflow.continue_as_new(sweep.model_copy(update={"so_far": so_far}))

    async def _page(self, sweep: RetentionInput, cursor: str | None, number: int) -> SweepReport:
        return await workflow.execute_activity_method(
            OutputSweepActivities.sweep_page,
            SweepInput(cursor=cursor, page_size=sweep.page_size),
            task_queue=OUTPUTS_TASK_QUEUE,
            start_to_close_timeout=SWEEP_ATTEMPT_TIMEOUT,
            heartbeat_timeout=SWEEP_HEARTBEAT_TIMEOUT,
            retry_policy=SWEEP_RETRY_POLICY,
            summary=f"page {number + 1} from {cursor or 'the beginning'}",
        )


def _sum(so_far: SweepReport, page: SweepReport) -> SweepReport:
    return SweepReport(
        scanned=so_far.scanned + page.scanned,
        deleted=so_far.deleted + page.deleted,
        freed_bytes=so_far.freed_bytes + page.freed_bytes,
        cursor=page.cursor,
    )
