"""Which workflows stay with the worker version that began them, and which move on; for versioned workers only.

A workflow that ends by itself is pinned: a call and a turn end on the code that they began with. One that lives for
weeks or for ever moves to the current version with its next step, so that an old version can be drained. A change of
what such a workflow does has to be gated with `workflow.patched`.

The SDK takes this as an argument of `workflow.defn`, which workers without a version cannot use: the server refuses
every step of such a workflow. So versioned workers add it here.
"""

from collections.abc import Sequence

from temporalio import workflow
from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.common import VersioningBehavior
from temporalio.converter import SerializationContext
from temporalio.converter import StorageDriverStoreContext as StoreContext
from temporalio.worker import WorkflowInstance, WorkflowInstanceDetails, WorkflowRunner
from temporalio.worker._command_aware_visitor import CommandInfo  # the type of a public method's parameter

PINNED = frozenset({"ToolCallWorkflow", "TurnWorkflow", "BatchWorkflow", "ScheduleFiringWorkflow"})
"""By name: clients need this module, too, and none of the workflows."""


def behaviour_of(workflow_type: str) -> VersioningBehavior:
    """Return whether workflows of this type are pinned or upgraded automatically."""
    return VersioningBehavior.PINNED if workflow_type in PINNED else VersioningBehavior.AUTO_UPGRADE


class VersionedRunner(WorkflowRunner):
    """Runs workflows as another runner does, and says of each how it relates to versions."""

    def __init__(self, runner: WorkflowRunner) -> None:
        """Have `runner` do the work."""
        self._runner = runner

    def prepare_workflow(self, defn: workflow._Definition) -> None:  # pyright: ignore[reportPrivateUsage]  # its type
        """See the base class."""
        self._runner.prepare_workflow(defn)

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        """An instance of the other runner, whose answers say how it relates to versions."""
        return _VersionedInstance(self._runner.create_instance(det), behaviour_of(det.info.workflow_type))

    def set_worker_level_failure_exception_types(self, types: Sequence[type[BaseException]]) -> None:
        """See the base class."""
        self._runner.set_worker_level_failure_exception_types(types)


class _VersionedInstance(WorkflowInstance):
    def __init__(self, instance: WorkflowInstance, behaviour: VersioningBehavior) -> None:
        self._instance = instance
        self._behaviour = behaviour

    def activate(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        completion = self._instance.activate(act)
        if completion.HasField("successful"):
            completion.successful.versioning_behavior = self._behaviour.value
        return completion

    def get_info(self) -> workflow.Info:
        return self._instance.get_info()

    def get_thread_id(self) -> int | None:
        return self._instance.get_thread_id()

    def get_serialization_context(self, command_info: CommandInfo | None) -> SerializationContext | None:
        return self._instance.get_serialization_context(command_info)

    def get_external_store_context(self, command_info: CommandInfo | None) -> StoreContext:
        return self._instance.get_external_store_context(command_info)
