"""Mode `apify`: the surface of Apify's own MCP server (0.16), on durable tasks."""

from outlast.workflows.tools.apify.actor_tool import actor_tool, mcp_tool_names
from outlast.workflows.tools.apify.call_actor import call_actor_tool
from outlast.workflows.tools.apify.datasets import (
    GET_DATASET,
    GET_DATASET_ITEMS,
    GET_DATASET_LIST,
    GET_DATASET_SCHEMA,
)
from outlast.workflows.tools.apify.docs import FETCH_APIFY_DOCS, SEARCH_APIFY_DOCS
from outlast.workflows.tools.apify.fetch_actor_details import FETCH_ACTOR_DETAILS
from outlast.workflows.tools.apify.instructions import INSTRUCTIONS
from outlast.workflows.tools.apify.key_value_stores import (
    GET_KEY_VALUE_STORE,
    GET_KEY_VALUE_STORE_KEYS,
    GET_KEY_VALUE_STORE_LIST,
    GET_KEY_VALUE_STORE_RECORD,
)
from outlast.workflows.tools.apify.report_problem import REPORT_PROBLEM
from outlast.workflows.tools.apify.runs import (
    ABORT_ACTOR_RUN,
    GET_ACTOR_RUN,
    GET_ACTOR_RUN_LIST,
    GET_ACTOR_RUN_LOG,
    RunResponseExecutor,
)
from outlast.workflows.tools.apify.saved_tasks import (
    CREATE_ACTOR_TASK,
    GET_ACTOR_TASK,
    PUBLISH_ACTOR_TASK,
    UNPUBLISH_ACTOR_TASK,
    UPDATE_ACTOR_TASK,
)
from outlast.workflows.tools.apify.schedules import (
    CREATE_SCHEDULE,
    DELETE_SCHEDULE,
    GET_SCHEDULE,
    UPDATE_SCHEDULE,
)
from outlast.workflows.tools.apify.schemas import WAIT_ARGUMENT, WAIT_DEFAULT_SECONDS, WAIT_MAX_SECONDS
from outlast.workflows.tools.apify.search_actors import SEARCH_ACTORS
from outlast.workflows.tools.apify.selection import RULES
from outlast.workflows.tools.apify.widgets import (
    CALL_ACTOR_WIDGET,
    FETCH_ACTOR_DETAILS_WIDGET,
    GET_ACTOR_RUN_WIDGET,
    SEARCH_ACTORS_WIDGET,
)
from outlast.workflows.tools.framework.mode import Mode, WaitRule

_EXECUTOR = RunResponseExecutor()

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
        GET_ACTOR_RUN,
        GET_ACTOR_RUN_LIST,
        GET_ACTOR_RUN_LOG,
        ABORT_ACTOR_RUN,
        GET_DATASET,
        GET_DATASET_ITEMS,
        GET_DATASET_SCHEMA,
        GET_KEY_VALUE_STORE,
        GET_KEY_VALUE_STORE_KEYS,
        GET_KEY_VALUE_STORE_RECORD,
        GET_DATASET_LIST,
        GET_KEY_VALUE_STORE_LIST,
        CREATE_ACTOR_TASK,
        GET_ACTOR_TASK,
        UPDATE_ACTOR_TASK,
        PUBLISH_ACTOR_TASK,
        UNPUBLISH_ACTOR_TASK,
        CREATE_SCHEDULE,
        GET_SCHEDULE,
        UPDATE_SCHEDULE,
        DELETE_SCHEDULE,
        REPORT_PROBLEM,
        SEARCH_ACTORS_WIDGET,
        FETCH_ACTOR_DETAILS_WIDGET,
        CALL_ACTOR_WIDGET,
        GET_ACTOR_RUN_WIDGET,
    ),
)
