"""Webhook events of runs that have spent most of their budget, sent by the activity that follows the run."""

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
from outlast.activities.webhooks import contracts as webhooks

NEAR = 0.8
"""The share of a run's budget from which on it counts as nearly spent."""
_MAX_TOLD = 10_000
_CALLER = SearchAttributeKey.for_keyword("OutlastCaller")


class BudgetNotices:
    """Starts the deliveries of `task.budget_near`, once for each run."""

    def __init__(self, client: Client, *, task_queue: str) -> None:
        self._client = client
        self._task_queue = task_queue
        self._told: OrderedDict[str, None] = OrderedDict()

    async def tell(self, watch: webhooks.BudgetWatch, run: RunState, budget: Budget) -> None:
        """Notify the listeners once for each run. The start by another worker has the same id. When
        Temporal does not answer, the next poll tries again: a notice never fails a run.
        """
        if run.run_id in self._told:
            return
        kind = webhooks.WebhookEventType.TASK_BUDGET_NEAR
        limit = budget.max_total_charge_usd
        data = webhooks.task_data(
            watch.subject,
            "working",
            run_id=run.run_id,
            cost_usd=run.usage_total_usd,
            budget_usd=float(limit) if limit is not None else None,
        )
        event = webhooks.WebhookEvent(
            id=webhooks.event_id(kind, watch.subject.task_id, activity.info().workflow_run_id or "", run.run_id),
            type=kind,
            timestamp=datetime.now(UTC),
            subject=watch.subject.task_id,
            data=data,
        )
        try:
            for listener in watch.listeners:
                await self._start(webhooks.DeliveryInput(caller_id=watch.caller_id, listener=listener, event=event))
        except RPCError as error:
            activity.logger.warning("The notice that run %s nears its limit was not sent: %s", run.run_id, error)
            return
        self._told[run.run_id] = None
        while len(self._told) > _MAX_TOLD:
            self._told.popitem(last=False)

    async def _start(self, order: webhooks.DeliveryInput) -> None:
        try:
            await self._client.start_workflow(
                webhooks.DELIVERY_WORKFLOW,
                order,
                id=order.workflow_id,
                task_queue=self._task_queue,
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
                memo={webhooks.DELIVERY_MEMO: order.summary},
                search_attributes=TypedSearchAttributes([SearchAttributePair(_CALLER, order.caller_id)]),
                static_summary=f"{order.event.type.value} for {order.listener.id}",
            )
        except WorkflowAlreadyStartedError:
            return


def nears_limit(run: RunState, budget: Budget) -> bool:
    """Return True if a run has spent most of its budget."""
    limit = budget.max_total_charge_usd
    return limit is not None and run.usage_total_usd is not None and run.usage_total_usd >= NEAR * float(limit)
