"""A fourth mode, thrown away after the test: its own folder, and not a line anywhere else.

It has its own form of a tool that is common to all other modes, and its own way to speak MCP. With it come tools for
all modes.
"""

from outlast.workflows.tools.default import MODE as DEFAULT
from outlast.workflows.tools.framework.executors import SyncActorExecutor
from outlast.workflows.tools.framework.mode import Instruction, Mode
from outlast.workflows.tools.framework.tool import Tool
from tests.contract.anthropic_mode.call_actor import call_actor_tool
from tests.contract.anthropic_mode.dialect import ArtifactDialect
from tests.contract.anthropic_mode.labelled import LABELLED, RESOURCE
from tests.contract.anthropic_mode.list_stores import LIST_STORES
from tests.contract.anthropic_mode.pick_colour import PICK_COLOUR
from tests.contract.anthropic_mode.present_run import present_as_artifact

_EXECUTOR = SyncActorExecutor(present_as_artifact)

MODES = (
    Mode(
        name="anthropic",
        executor=_EXECUTOR,
        tools=(
            call_actor_tool(_EXECUTOR),
            LIST_STORES,
            *(definition for definition in DEFAULT.tools if definition.name != "call-actor"),
        ),
        instructions=(Instruction("- Results are shown as artifacts."),),
    ),
)
DIALECTS = (("anthropic", ArtifactDialect()),)
TOOLS: tuple[Tool, ...] = (PICK_COLOUR, LABELLED)
RESOURCES = (RESOURCE,)
