"""A third mode, thrown away after the test: its own folder, and not a line anywhere else."""

from outlast.workflows.runtime.executors import SyncActorExecutor
from outlast.workflows.tools.default import MODE as DEFAULT
from outlast.workflows.tools.framework.mode import Mode
from outlast.workflows.tools.framework.tool import Tool
from tests.contract.anthropic_mode.call_actor import call_actor_tool
from tests.contract.anthropic_mode.present_run import present_as_artifact

_EXECUTOR = SyncActorExecutor(present_as_artifact)

MODES = (
    Mode(
        name="anthropic",
        executor=_EXECUTOR,
        tools=(
            call_actor_tool(_EXECUTOR),
            *(definition for definition in DEFAULT.tools if definition.name != "call-actor"),
        ),
        instructions="- Results are shown as artifacts.",
    ),
)
TOOLS: tuple[Tool, ...] = ()
