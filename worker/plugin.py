"""The Temporal plugin of clients, workers and replayers: data converter, external storage and sandbox."""

import dataclasses

from temporalio.converter import DataConverter, DefaultFailureConverterWithEncodedAttributes, PayloadCodec
from temporalio.plugin import SimplePlugin
from temporalio.worker import ReplayerConfig, WorkerConfig, WorkflowRunner
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from outlast.activities.object_store.objects import OutputObjects
from outlast.worker.payloads.contexts import AlikePayloadsRunner
from outlast.worker.payloads.converter import lean_data_converter
from outlast.worker.payloads.external_storage import external_storage
from outlast.workflows.versioning import VersionedRunner

PASSED_THROUGH = (
    # Workflow code is deterministic by review and by replay tests, and uses contracts and activity signatures for their
    # types only; importing all of it once instead of once per workflow saves 10 ms and more of each call.
    "outlast",
    # Pulled in by the activity signatures.
    "apify_client",
    "cryptography",
    "httpx",
    "impit",
    "jmespath",
    "jsonschema_rs",
    "obstore",
    "orjson",
    "pydantic",
    "pydantic_core",
    "zstandard",
)


def _sandboxed(runner: WorkflowRunner | None) -> WorkflowRunner:
    if isinstance(runner, SandboxedWorkflowRunner):
        restrictions = runner.restrictions.with_passthrough_modules(*PASSED_THROUGH)
        return AlikePayloadsRunner(dataclasses.replace(runner, restrictions=restrictions))
    return runner or AlikePayloadsRunner(
        SandboxedWorkflowRunner(SandboxRestrictions.default.with_passthrough_modules(*PASSED_THROUGH))
    )


def _converter(objects: OutputObjects | None, codec: PayloadCodec | None, *, read_only: bool = False) -> DataConverter:
    storage = external_storage(objects, read_only=read_only) if objects is not None else None
    converter = dataclasses.replace(lean_data_converter, external_storage=storage, payload_codec=codec)
    if codec is None:
        return converter
    # Messages and traces of failures may quote arguments.
    return dataclasses.replace(converter, failure_converter_class=DefaultFailureConverterWithEncodedAttributes)


class OutlastPlugin(SimplePlugin):
    """The configuration that every Temporal client, worker and replayer of Outlast shares."""

    def __init__(self, objects: OutputObjects | None = None, codec: PayloadCodec | None = None) -> None:
        """Keep large payloads in `objects`. Without it Temporal rejects them, and stored ones cannot be read.

        With `codec` all payloads, and the messages of failures, pass through it.
        """
        super().__init__(  # pyright: ignore[reportUnknownMemberType]  # the SDK leaves a type open
            "outlast", data_converter=_converter(objects, codec), workflow_runner=_sandboxed
        )
        self._objects = objects
        self._codec = codec

    def configure_worker(self, config: WorkerConfig) -> WorkerConfig:
        """A worker with a version says of each workflow whether it may move to another one."""
        configured = super().configure_worker(config)
        if "deployment_config" not in configured or "workflow_runner" not in configured:
            return configured
        deployment = configured["deployment_config"]
        if deployment is not None and deployment.use_worker_versioning:
            configured["workflow_runner"] = VersionedRunner(configured["workflow_runner"])
        return configured

    def configure_replayer(self, config: ReplayerConfig) -> ReplayerConfig:
        """A replay reads stored payloads and writes none."""
        configured = super().configure_replayer(config)
        configured["data_converter"] = _converter(self._objects, self._codec, read_only=True)
        return configured
