"""Answers, outside of the sandbox, what the SDK asks of a workflow about each of its payloads.

For every payload that a workflow reads or writes, the SDK asks two or three times whose it is: once for the converters
and the codec, once for the store of large payloads. It enters the sandbox for each question, which costs more than all
that Outlast does with the payload. Converters and codec of Outlast treat all payloads alike, so their answer is always
the same; the store's differs for those commands only that reach another workflow.
"""

from collections.abc import Sequence

from temporalio import workflow
from temporalio.api.enums.v1 import CommandType
from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.converter import SerializationContext, StorageDriverWorkflowInfo, WorkflowSerializationContext
from temporalio.converter import StorageDriverStoreContext as StoreContext
from temporalio.worker import WorkflowInstance, WorkflowInstanceDetails, WorkflowRunner
from temporalio.worker._command_aware_visitor import CommandInfo  # the type of a public method's parameter

_FOR_ANOTHER_WORKFLOW = frozenset(
    {
        CommandType.COMMAND_TYPE_START_CHILD_WORKFLOW_EXECUTION,
        CommandType.COMMAND_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION,
    }
)


class AlikePayloadsRunner(WorkflowRunner):
    """Runs workflows as another runner does, for converters and a codec that treat all payloads alike."""

    def __init__(self, runner: WorkflowRunner) -> None:
        """Have `runner` do the work."""
        self._runner = runner

    def prepare_workflow(self, defn: workflow._Definition) -> None:  # pyright: ignore[reportPrivateUsage]  # its type
        """As the other runner."""
        self._runner.prepare_workflow(defn)

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        """An instance of the other runner that need not be asked whose a payload is."""
        return _Instance(self._runner.create_instance(det), det.info)

    def set_worker_level_failure_exception_types(self, types: Sequence[type[BaseException]]) -> None:
        """As the other runner."""
        self._runner.set_worker_level_failure_exception_types(types)


class _Instance(WorkflowInstance):
    def __init__(self, instance: WorkflowInstance, info: workflow.Info) -> None:
        self._instance = instance
        self._info = info
        self._context = WorkflowSerializationContext(namespace=info.namespace, workflow_id=info.workflow_id)
        self._own = StoreContext(
            target=StorageDriverWorkflowInfo(
                id=info.workflow_id, run_id=info.run_id, type=info.workflow_type, namespace=info.namespace
            )
        )

    def activate(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        return self._instance.activate(act)

    def get_info(self) -> workflow.Info:
        return self._info

    def get_thread_id(self) -> int | None:
        return self._instance.get_thread_id()

    def get_serialization_context(self, command_info: CommandInfo | None) -> SerializationContext:  # noqa: ARG002 (the SDK's interface)
        return self._context

    def get_external_store_context(self, command_info: CommandInfo | None) -> StoreContext:
        return self._own if self._is_own(command_info) else self._instance.get_external_store_context(command_info)

    def _is_own(self, command: CommandInfo | None) -> bool:
        if command is None:
            return True
        if command.command_type == CommandType.COMMAND_TYPE_COMPLETE_WORKFLOW_EXECUTION:
            return self._info.parent is None  # A child's result is its parent's.
        return command.command_type not in _FOR_ANOTHER_WORKFLOW
