"""One log line for each list of tools that a client is given."""

import logging
from collections import Counter
from collections.abc import Sequence

from outlast.workflows.tools.core.actor_names import split_actor_tool
from outlast.workflows.tools.loader import ToolSet, base_tools

log = logging.getLogger("outlast.api")

_MAX_NAMES = 50


def log_listing(tools: ToolSet, selectors: Sequence[str] | None, *, caller: str) -> None:
    """Log how many tools are listed, what was selected, where the tools come from, and what is missing.

    `selectors` is None for the default selection. `hidden` counts the mode's own tools that are not listed.
    """
    listed = tools.tools.values()
    servers = Counter(split_actor_tool(one.actor)[0] for one in listed if one.actor and not one.calls_actor)
    facts = {
        "caller": caller,
        "mode": tools.mode,
        "tools": len(listed),
        "hidden": len(base_tools(tools.mode).tools.keys() - tools.tools.keys()),
        "selected": "default" if selectors is None else list(selectors[:_MAX_NAMES]),
        "actors": sum(1 for one in listed if one.actor and one.calls_actor),
        "mcp_servers": dict(servers),
        "not_loaded": list(tools.missing_actors[:_MAX_NAMES]),
    }
    log.info("tools listed", extra=facts)
