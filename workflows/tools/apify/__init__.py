"""Mode `apify`: the tools of Apify's own MCP server (0.16), on durable tasks."""

from outlast.workflows.tools.apify import runs, schedules, storages, widgets
from outlast.workflows.tools.apify.actors import FETCH_ACTOR_DETAILS, SEARCH_ACTORS
from outlast.workflows.tools.apify.call_actor import actor_tool, call_actor_tool, mcp_tool_names
from outlast.workflows.tools.apify.docs import FETCH_APIFY_DOCS, REPORT_PROBLEM, SEARCH_APIFY_DOCS
from outlast.workflows.tools.apify.instructions import INSTRUCTIONS
from outlast.workflows.tools.apify.schemas import WAIT_ARGUMENT, WAIT_DEFAULT_SECONDS, WAIT_MAX_SECONDS
from outlast.workflows.tools.apify.selection import RULES
from outlast.workflows.tools.framework.mode import Mode, WaitRule

_EXECUTOR = runs.RunResponseExecutor()

MODE = Mode(
    name="apify",
    instructions=INSTRUCTIONS,
    executor=_EXECUTOR,
    shares=frozenset(),
    selection=RULES,
    has_widgets=True,
    actor_tools=actor_tool,
    mcp_tool_names=mcp_tool_names,
    runs_standby=False,
    wait=WaitRule(
        default_seconds=WAIT_DEFAULT_SECONDS,
        max_seconds=WAIT_MAX_SECONDS,
        kind="integer",
        description=str(WAIT_ARGUMENT["description"]),
        replaces=True,
        of_servers=False,
        other_seconds=120,
    ),
    tells_changes=False,
    # In the order in which they are listed.
    tools=(
        SEARCH_ACTORS,
        FETCH_ACTOR_DETAILS,
        call_actor_tool(_EXECUTOR),
        SEARCH_APIFY_DOCS,
        FETCH_APIFY_DOCS,
        *runs.TOOLS,
        *storages.DATASET_TOOLS,
        *storages.KEY_VALUE_STORE_TOOLS,
        storages.GET_DATASET_LIST,
        storages.GET_KEY_VALUE_STORE_LIST,
        *schedules.TASK_TOOLS,
        *schedules.SCHEDULE_TOOLS,
        REPORT_PROBLEM,
        *widgets.TOOLS,
    ),
)
