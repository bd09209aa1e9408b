"""Histories recorded earlier replay on the workflows of today: a change of what they do would wedge tasks in flight."""

import asyncio
import json
from collections.abc import Mapping

import pytest
from temporalio import workflow
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner

from outlast.activities.webhooks.contracts import (
    DELIVERY_WORKFLOW,
    QUEUE_WORKFLOW,
    SUBSCRIPTIONS_WORKFLOW,
    Delivered,
    DeliveryInput,
    SubscriptionsState,
)
from outlast.activities.webhooks.waiting import QueueState
from outlast.worker.connection import OutlastPlugin
from outlast.worker.service import WORKFLOWS
from outlast.workflows.batches.batch import BatchWorkflow
from outlast.workflows.batches.contracts import BatchInput, BatchOutcome
from outlast.workflows.contracts.sessions import SessionState, TurnInput, TurnResult
from outlast.workflows.contracts.tool_calls import ToolCall, ToolOutcome
from outlast.workflows.schedules.contracts import FiringInput, FiringOutcome
from outlast.workflows.schedules.firing import ScheduleFiringWorkflow
from outlast.workflows.session import SessionWorkflow
from outlast.workflows.tool_call import ToolCallWorkflow
from outlast.workflows.tools.extensions import load_extensions
from outlast.workflows.turn import TurnWorkflow
from outlast.workflows.webhooks.deliveries import (
    WebhookDeliveryWorkflow,
    WebhookQueueWorkflow,
    WebhookSubscriptionsWorkflow,
)
from tests.histories.commands import HISTORIES
from tests.histories.heartbeats import heartbeated, with_local_start
from tests.histories.stale_times import with_stale_times

load_extensions(
    [f"tests.support.tools.{name}" for name in ("step_tools", "calling_tools")] + ["docs.examples.hello_tools"]
)

RECORDED = sorted(f"{path.parent.name}/{path.stem}" for path in HISTORIES.glob("*/*.json"))
"""Those of every release, and the unreleased ones."""
HINT = (
    "A workflow does something else than it did when this history was recorded. Gate the change with "
    "workflow.patched(...); what no release has run may be recorded anew with `make histories`."
)


def history(name: str) -> WorkflowHistory:
    recorded: Mapping[str, object] = json.loads((HISTORIES / f"{name}.json").read_text())
    return WorkflowHistory.from_json(str(recorded["workflow_id"]), json.dumps(recorded["history"]))


def test_every_kind_of_call_was_recorded() -> None:
    kinds = {"sync_call", "async_call", "failed_run", "refused_call", "dataset_items", "cancelled_call", "deadline"}
    kinds |= {"call_of_removed_tool", "handed_off_call", "approved_call", "session", "turn", "turn_session"}
    kinds |= {"batch", "cancelled_batch", "retried_batch", "heard_call", "lost_event", "webhooks"}
    kinds |= {"waiting_event", "webhook_queue"}
    assert {f"unreleased/{kind}" for kind in ("sync_call", "async_call", "cancelled_call")} <= set(with_local_start())
    for folder in {name.partition("/")[0] for name in RECORDED}:
        assert {f"{folder}/{kind}" for kind in kinds} <= set(RECORDED)


@pytest.mark.parametrize("name", RECORDED)
async def test_a_recorded_history_replays(name: str) -> None:
    # Without debug mode, a machine that stands still for two seconds counts as a deadlock of the workflow.
    replayer = Replayer(
        workflows=WORKFLOWS,
        plugins=[OutlastPlugin()],
        debug_mode=True,
    )
    result = await replayer.replay_workflow(history(name), raise_on_replay_failure=False)
    assert result.replay_failure is None, f"{HINT}\n{result.replay_failure}"


@pytest.mark.parametrize("name", RECORDED)
async def test_no_command_depends_on_the_time_of_a_workflow_task(name: str) -> None:
    replayer = Replayer(workflows=WORKFLOWS, plugins=[OutlastPlugin()], debug_mode=True)
    result = await replayer.replay_workflow(with_stale_times(history(name)), raise_on_replay_failure=False)
    assert result.replay_failure is None, result.replay_failure


@pytest.mark.parametrize("name", with_local_start())
async def test_a_start_replays_whose_workflow_task_was_prolonged(name: str) -> None:
    recorded: Mapping[str, object] = json.loads((HISTORIES / f"{name}.json").read_text())
    prolonged = WorkflowHistory.from_json(str(recorded["workflow_id"]), json.dumps({"events": heartbeated(name)}))
    replayer = Replayer(workflows=[ToolCallWorkflow], plugins=[OutlastPlugin()], debug_mode=True)
    result = await replayer.replay_workflow(prolonged, raise_on_replay_failure=False)
    assert result.replay_failure is None, f"Its commands depend on the length of its history.\n{result.replay_failure}"


@workflow.defn(name="ToolCallWorkflow")
class HastyToolCall(ToolCallWorkflow):
    """As the real one, but for a timer that nobody gated."""

    @workflow.run
    async def run(self, call: ToolCall) -> ToolOutcome:
        await asyncio.sleep(1)
        return await super().run(call)


@workflow.defn(name="SessionWorkflow")
class HastySession(SessionWorkflow):
    """As the real one, but for a memo that nobody gated."""

    @workflow.init
    def __init__(self, state: SessionState) -> None:
        super().__init__(state)

    @workflow.run
    async def run(self, _state: SessionState) -> None:
        workflow.upsert_memo({"late": True})
        await super().run(_state)


@workflow.defn(name="TurnWorkflow")
class HastyTurn(TurnWorkflow):
    """As the real one, but for a timer that nobody gated."""

    @workflow.init
    def __init__(self, turn: TurnInput) -> None:
        super().__init__(turn)

    @workflow.run
    async def run(self, turn: TurnInput) -> TurnResult:
        await asyncio.sleep(1)
        return await super().run(turn)


@workflow.defn(name="BatchWorkflow")
class HastyBatch(BatchWorkflow):
    """As the real one, but for a timer that nobody gated."""

    @workflow.init
    def __init__(self, order: BatchInput) -> None:
        super().__init__(order)

    @workflow.run
    async def run(self, order: BatchInput) -> BatchOutcome:
        await asyncio.sleep(1)
        return await super().run(order)


@workflow.defn(name="ScheduleFiringWorkflow")
class HastyFiring(ScheduleFiringWorkflow):
    """As the real one, but for a timer that nobody gated."""

    @workflow.init
    def __init__(self, order: FiringInput) -> None:
        super().__init__(order)

    @workflow.run
    async def run(self, order: FiringInput) -> FiringOutcome:
        await asyncio.sleep(1)
        return await super().run(order)


@workflow.defn(name=DELIVERY_WORKFLOW)
class HastyDelivery(WebhookDeliveryWorkflow):
    """As the real one, but for a timer that nobody gated."""

    @workflow.run
    async def run(self, request: DeliveryInput) -> Delivered:
        await asyncio.sleep(1)
        return await super().run(request)


@workflow.defn(name=SUBSCRIPTIONS_WORKFLOW)
class HastySubscriptions(WebhookSubscriptionsWorkflow):
    """As the real one, but for a memo that nobody gated."""

    @workflow.init
    def __init__(self, state: SubscriptionsState) -> None:
        super().__init__(state)

    @workflow.run
    async def run(self, state: SubscriptionsState) -> None:
        workflow.upsert_memo({"late": True})
        await super().run(state)


@workflow.defn(name=QUEUE_WORKFLOW)
class HastyQueue(WebhookQueueWorkflow):
    """As the real one, but for a memo that nobody gated."""

    @workflow.init
    def __init__(self, state: QueueState) -> None:
        super().__init__(state)

    @workflow.run
    async def run(self, state: QueueState) -> None:
        workflow.upsert_memo({"late": True})
        await super().run(state)


@pytest.mark.parametrize("name", RECORDED)
async def test_an_ungated_change_is_noticed(name: str) -> None:
    replayer = Replayer(
        workflows=[
            HastyToolCall,
            HastySession,
            HastyTurn,
            HastyBatch,
            HastyFiring,
            HastyDelivery,
            HastySubscriptions,
            HastyQueue,
        ],
        plugins=[OutlastPlugin()],
        workflow_runner=UnsandboxedWorkflowRunner(),
    )
    result = await replayer.replay_workflow(history(name), raise_on_replay_failure=False)
    assert isinstance(result.replay_failure, workflow.NondeterminismError)
