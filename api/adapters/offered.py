"""The tools that a model is offered, under names that its provider accepts, and the tool behind such a name."""

from collections.abc import Mapping
from dataclasses import dataclass

from outlast.activities.contracts import Caller, JsonObject
from outlast.api.adapters.model_calls import BackEnd
from outlast.api.offer.catalogue import Catalogue
from outlast.api.offer.portable_names import fitting_names
from outlast.api.offer.portable_schemas import portable
from outlast.workflows.tools.core.standard_selection import TASK_COMPANIONS
from outlast.workflows.tools.framework.selection import Selection
from outlast.workflows.tools.framework.tool import Tool
from outlast.workflows.tools.loader import ToolSet, base_tools, tool_set
from outlast.workflows.tools.registry import UnknownTool, unknown_tool


@dataclass(frozen=True)
class OfferedTools:
    """The tools, and their own names by the names shown to the provider. If `closed`, no other tool may be called."""

    tools: ToolSet
    names: Mapping[str, str]
    closed: bool

    def listed(self, back_end: BackEnd) -> list[JsonObject]:
        """The list of tools in the provider's form. The same tools give the same bytes."""
        return [back_end.tool(portable(self.tools.get(own), shown)) for shown, own in self.names.items()]


async def load_offered(
    catalogue: Catalogue, caller: Caller, *, mode: str, selectors: tuple[str, ...] | None
) -> OfferedTools:
    """The tools of `selectors`; without selectors, those of an MCP connection that selects none.

    The tools that manage tasks are always included, because any call may take longer than its caller waits. Raises
    `UnknownToolCalled` for an unknown mode.
    """
    loaded = await catalogue.load(Selection(mode, selectors), caller)
    return _offered(loaded, closed=selectors is not None)


async def load_callable(catalogue: Catalogue, caller: Caller, *, mode: str) -> OfferedTools:
    """All tools that can be called, for programs that do not say which tools they offered."""
    return _offered(await catalogue.tools(mode, caller), closed=False)


async def definition_named(offered: OfferedTools, catalogue: Catalogue, caller: Caller, name: str) -> Tool:
    """The tool that a model calls `name`. Raises `UnknownTool`, `UnknownToolCalled`, `PlatformUnavailable`."""
    own = offered.names.get(name, name)
    try:
        return offered.tools.get(own)
    except UnknownTool as error:
        if offered.closed:
            raise unknown_tool(own, tuple(offered.names)) from error
    return await catalogue.resolve(offered.tools.mode, own, caller)


def _offered(loaded: ToolSet, *, closed: bool) -> OfferedTools:
    base = base_tools(loaded.mode)
    companions = (base.tools[name] for name in TASK_COMPANIONS if name in base.tools)
    tools = loaded.including(*companions).tools.values()
    # The remaining tools need a connection that keeps its list of tools, which does not exist here.
    offered = tool_set(loaded.mode, (tool for tool in tools if tool.in_front or not tool.needs_connection))
    return OfferedTools(offered, fitting_names(offered.tools), closed)
