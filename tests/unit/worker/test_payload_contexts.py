"""What the SDK asks of a workflow about each of its payloads is answered the same without entering the sandbox."""

import json
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path

import pytest
from temporalio.api.enums.v1 import CommandType
from temporalio.client import WorkflowHistory
from temporalio.converter import ActivitySerializationContext, StorageDriverStoreContext
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner, WorkflowInstance, WorkflowInstanceDetails
from temporalio.worker._command_aware_visitor import CommandInfo

from outlast.activities.object_store import OutputObjects
from outlast.activities.secrets import SecretSealer
from outlast.worker.connection import AlikePayloadsRunner, OutlastPlugin
from outlast.worker.payloads import EncryptingCodec
from outlast.workflows.session import SessionWorkflow
from outlast.workflows.tool_call import ToolCallWorkflow
from outlast.workflows.tools.extensions import load_extensions
from outlast.workflows.turn import TurnWorkflow
from tests.histories.commands import HISTORIES

load_extensions(["docs.examples.hello_tools"])

WORKFLOWS = (ToolCallWorkflow, SessionWorkflow, TurnWorkflow)
_SIGNAL = CommandType.COMMAND_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION
_CHILD = CommandType.COMMAND_TYPE_START_CHILD_WORKFLOW_EXECUTION
_END = CommandType.COMMAND_TYPE_COMPLETE_WORKFLOW_EXECUTION

_OF_ACTIVITY = ActivitySerializationContext(
    namespace="default",
    workflow_id="w",
    workflow_type="ToolCallWorkflow",
    activity_type="fetch_dataset_items",
    activity_id="1",
    activity_task_queue="outlast-tools",
    is_local=True,
)

StoreQuestion = Callable[[CommandInfo | None], StorageDriverStoreContext]


class Plain(UnsandboxedWorkflowRunner):
    """The SDK's own runner; it remembers which workflow was asked what."""

    def __init__(self) -> None:
        super().__init__()
        self.questions: dict[str, StoreQuestion] = {}
        self.asked: list[int | None] = []

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        instance = super().create_instance(det)
        question = self.questions[det.info.run_id] = instance.get_external_store_context

        def asked(command: CommandInfo | None) -> StorageDriverStoreContext:
            self.asked.append(command.command_type if command else None)
            return question(command)

        setattr(instance, "get_external_store_context", asked)  # noqa: B010
        setattr(instance, "get_serialization_context", _not_to_be_asked)  # noqa: B010
        return instance


class Compared(AlikePayloadsRunner):
    """The runner under test; what it answers for a payload is kept beside what the workflow itself answers."""

    def __init__(self) -> None:
        self.plain = Plain()
        self.answers: list[tuple[int | None, StorageDriverStoreContext, StorageDriverStoreContext]] = []
        super().__init__(self.plain)

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        instance = super().create_instance(det)
        answer = instance.get_external_store_context

        def compared(command: CommandInfo | None) -> StorageDriverStoreContext:
            answered = answer(command)
            expected = self.plain.questions[det.info.run_id](command)
            self.answers.append((command.command_type if command else None, answered, expected))
            return answered

        setattr(instance, "get_external_store_context", compared)  # noqa: B010
        return instance


@pytest.mark.parametrize(
    ("name", "reaches_another"),
    [
        ("dataset_items", set[int]()),
        ("sync_call", {_SIGNAL}),
        ("turn", {_CHILD, _SIGNAL}),
        ("turn_call", {_END, _SIGNAL}),
    ],
)
async def test_only_a_command_that_reaches_another_workflow_is_asked_whose_its_payload_is(
    name: str, reaches_another: set[int]
) -> None:
    runner = Compared()
    replayer = Replayer(workflows=WORKFLOWS, plugins=[OutlastPlugin()], workflow_runner=runner, debug_mode=True)
    await replayer.replay_workflow(_history(name))
    assert runner.answers
    assert [answered for _, answered, _ in runner.answers] == [expected for _, _, expected in runner.answers]
    assert set(runner.plain.asked) == reaches_another


def test_converters_and_codec_of_workers_treat_all_payloads_alike(tmp_path: Path) -> None:
    codec = EncryptingCodec(
        SecretSealer.from_text(f"k1:{b64encode(bytes(32)).decode()}").content_cipher(), encrypts=True
    )
    plugin = OutlastPlugin(OutputObjects.open(str(tmp_path)), codec)
    config = plugin.configure_replayer(Replayer(workflows=WORKFLOWS).config())
    assert isinstance(config.get("workflow_runner"), AlikePayloadsRunner)
    converter = config.get("data_converter")
    assert converter is not None
    assert converter.with_context(_OF_ACTIVITY) is converter


def _history(name: str) -> WorkflowHistory:
    recorded = json.loads((HISTORIES / "unreleased" / f"{name}.json").read_text())
    return WorkflowHistory.from_json(recorded["workflow_id"], json.dumps(recorded["history"]))


def _not_to_be_asked(_: CommandInfo | None) -> None:
    raise AssertionError("The sandbox was asked for a context that says nothing.")
