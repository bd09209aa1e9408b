"""A fifth mode, thrown away after the test, which uses what a mode may bring beside its executor and its tools.

The room `anthropic_mode` has the small one. Here are rules of selection, tools of single Actors, the wait, names of
tools of MCP servers, addresses, pages, and a payment: all in this folder, and not a line of it anywhere else.
"""

from outlast.workflows.tools.default import MODE as DEFAULT
from outlast.workflows.tools.framework.mode import Mode, WaitRule
from outlast.workflows.tools.framework.tool import Tool
from tests.contract.kiosk_mode.actor_tools import actor_tool, mcp_tool_names
from tests.contract.kiosk_mode.dialect import KioskDialect
from tests.contract.kiosk_mode.selection import RULES
from tests.contract.kiosk_mode.window import LOOK

NAME = "kiosk"
MODES = (
    Mode(
        name=NAME,
        executor=DEFAULT.executor,
        tools=(*(definition for definition in DEFAULT.tools if definition.name == "call-actor"), LOOK),
        shares=frozenset({"get-key-value-store-record", "get-dataset-items"}),
        selection=RULES,
        actor_tools=actor_tool,
        mcp_tool_names=mcp_tool_names,
        runs_standby=False,
        wait=WaitRule(
            default_seconds=0,
            max_seconds=90,
            kind="integer",
            description="How long to stand at the kiosk.",
            replaces=True,
            of_servers=False,
        ),
        has_widgets=True,
        companions=("get-dataset-items",),
    ),
)
DIALECTS = ((NAME, KioskDialect()),)
TOOLS: tuple[Tool, ...] = ()
