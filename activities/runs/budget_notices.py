"""Webhook events of runs that have spent most of their budget. Only the activity that follows a run knows in time."""

from collections import OrderedDict
from datetime import UTC, datetime

from temporalio import activity
from temporalio.client import Client
from temporalio.common import (
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from outlast.activities.runs.contracts import Budget, RunState
from outlast.activities.webhooks.contracts import (
    DELIVERY_MEMO,
    DELIVERY_WORKFLOW,
    BudgetWatch,
    DeliveryInput,
    WebhookEvent,
    WebhookEventType,
    event_id,
    task_data,
)

NEAR = 0.8
"""The share of a run's budget from which on it counts as nearly spent."""
_MAX_TOLD = 10_000
_CALLER = SearchAttributeKey.for_keyword("OutlastCaller")


class BudgetNotices:
    """Starts the deliveries of `task.budget_near`, once for each run."""

    def __init__(self, client: Client, *, task_queue: str) -> None:
        """Deliveries are workflows on `task_queue`."""
        self._client = client
        self._task_queue = task_queue
        self._told: OrderedDict[str, None] = OrderedDict()

    async def tell(self, watch: BudgetWatch, run: RunState, budget: Budget) -> None:
        """Tell those who listen, unless they were told of this run. Another worker's start is met by its id.

        When Temporal does not answer, the next look at the run tries again: no run is lost for a notice.
        """
        if run.run_id in self._told:
            return
        kind = WebhookEventType.TASK_BUDGET_NEAR
        limit = budget.max_total_charge_usd
        data = task_data(
            watch.subject,
            "working",
            run_id=run.run_id,
            cost_usd=run.usage_total_usd,
            budget_usd=float(limit) if limit is not None else None,
        )
        event = WebhookEvent(
            id=event_id(kind, watch.subject.task_id, activity.info().workflow_run_id or "", run.run_id),
            type=kind,
            timestamp=datetime.now(UTC),
            subject=watch.subject.task_id,
            data=data,
        )
        try:
            for listener in watch.listeners:
                await self._start(DeliveryInput(caller_id=watch.caller_id, listener=listener, event=event))
        except RPCError as error:
            activity.logger.warning("Nobody was told that run %s nears its limit: %s", run.run_id, error)
            return
        self._told[run.run_id] = None
        while len(self._told) > _MAX_TOLD:
            self._told.popitem(last=False)

    async def _start(self, order: DeliveryInput) -> None:
        try:
            await self._client.start_workflow(
                DELIVERY_WORKFLOW,
                order,
                id=order.workflow_id,
                task_queue=self._task_queue,
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
                memo={DELIVERY_MEMO: order.summary},
                search_attributes=TypedSearchAttributes([SearchAttributePair(_CALLER, order.caller_id)]),
                static_summary=f"{order.event.type.value} for {order.listener.id}",
            )
        except WorkflowAlreadyStartedError:
            return


def nears_limit(run: RunState, budget: Budget) -> bool:
    """Whether a run has spent most of its budget."""
    limit = budget.max_total_charge_usd
    return limit is not None and run.usage_total_usd is not None and run.usage_total_usd >= NEAR * float(limit)
