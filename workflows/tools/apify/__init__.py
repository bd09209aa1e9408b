"""Mode `apify`: the tools of Apify's own MCP server (0.16), on durable tasks."""

from outlast.workflows.tools.apify import datasets, key_value_stores, runs, saved_tasks, schedules, widgets
from outlast.workflows.tools.apify.actor_tool import actor_tool, mcp_tool_names
from outlast.workflows.tools.apify.call_actor import call_actor_tool
from outlast.workflows.tools.apify.docs import FETCH_APIFY_DOCS, SEARCH_APIFY_DOCS
from outlast.workflows.tools.apify.fetch_actor_details import FETCH_ACTOR_DETAILS
from outlast.workflows.tools.apify.instructions import INSTRUCTIONS
from outlast.workflows.tools.apify.report_problem import REPORT_PROBLEM
from outlast.workflows.tools.apify.schemas import WAIT_ARGUMENT, WAIT_DEFAULT_SECONDS, WAIT_MAX_SECONDS
from outlast.workflows.tools.apify.search_actors import SEARCH_ACTORS
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
        *datasets.TOOLS,
        *key_value_stores.TOOLS,
        datasets.GET_DATASET_LIST,
        key_value_stores.GET_KEY_VALUE_STORE_LIST,
        *saved_tasks.TOOLS,
        *schedules.TOOLS,
        REPORT_PROBLEM,
        *widgets.TOOLS,
    ),
)
