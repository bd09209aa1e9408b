"""One Temporal plugin for client, worker and replayer alike: data converter and sandbox."""

import dataclasses

from temporalio.plugin import SimplePlugin
from temporalio.worker import WorkflowRunner
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from worker.converter import lean_data_converter

PASSED_THROUGH = (
    # Contracts and activity signatures: imported for their types, never called from workflow code.
    "activities",
    # Our workflow packages are deterministic by review and by replay tests; importing them once instead of once per
    # workflow saves 10 ms and more of each call.
    "workflows",
    # Pulled in by the activity signatures.
    "apify_client",
    "cryptography",
    "httpx",
    "impit",
    "orjson",
    "pydantic",
    "pydantic_core",
)


def _sandboxed(runner: WorkflowRunner | None) -> WorkflowRunner:
    if isinstance(runner, SandboxedWorkflowRunner):
        restrictions = runner.restrictions.with_passthrough_modules(*PASSED_THROUGH)
        return dataclasses.replace(runner, restrictions=restrictions)
    return runner or SandboxedWorkflowRunner(SandboxRestrictions.default.with_passthrough_modules(*PASSED_THROUGH))


class OutlastPlugin(SimplePlugin):
    """What every Temporal client, worker and replayer of Outlast has in common."""

    def __init__(self) -> None:
        """Nothing to configure."""
        super().__init__(  # pyright: ignore[reportUnknownMemberType]  # the SDK leaves a type open
            "outlast", data_converter=lean_data_converter, workflow_runner=_sandboxed
        )
