"""Mode `apify`: the surface of Apify's own MCP server (0.16), on durable tasks."""

from outlast.workflows.tools.apify.actors.actor_tool import actor_tool
from outlast.workflows.tools.apify.actors.call_actor import call_actor_tool
from outlast.workflows.tools.apify.actors.fetch_actor_details import FETCH_ACTOR_DETAILS
from outlast.workflows.tools.apify.actors.mcp_names import mcp_tool_names
from outlast.workflows.tools.apify.actors.search_actors import SEARCH_ACTORS
from outlast.workflows.tools.apify.dev.report_problem import REPORT_PROBLEM
from outlast.workflows.tools.apify.docs.fetch_apify_docs import FETCH_APIFY_DOCS
from outlast.workflows.tools.apify.docs.search_apify_docs import SEARCH_APIFY_DOCS
from outlast.workflows.tools.apify.executor import RunResponseExecutor
from outlast.workflows.tools.apify.instructions import INSTRUCTIONS
from outlast.workflows.tools.apify.runs.abort_actor_run import ABORT_ACTOR_RUN
from outlast.workflows.tools.apify.runs.get_actor_run import GET_ACTOR_RUN
from outlast.workflows.tools.apify.runs.get_actor_run_list import GET_ACTOR_RUN_LIST
from outlast.workflows.tools.apify.runs.get_actor_run_log import GET_ACTOR_RUN_LOG
from outlast.workflows.tools.apify.saved_tasks.change_actor_task import (
    GET_ACTOR_TASK,
    PUBLISH_ACTOR_TASK,
    UNPUBLISH_ACTOR_TASK,
    UPDATE_ACTOR_TASK,
)
from outlast.workflows.tools.apify.saved_tasks.create_actor_task import CREATE_ACTOR_TASK
from outlast.workflows.tools.apify.schedules.schedule_tools import (
    CREATE_SCHEDULE,
    DELETE_SCHEDULE,
    GET_SCHEDULE,
    UPDATE_SCHEDULE,
)
from outlast.workflows.tools.apify.schemas.runs import WAIT_ARGUMENT, WAIT_DEFAULT_SECONDS, WAIT_MAX_SECONDS
from outlast.workflows.tools.apify.selection import RULES
from outlast.workflows.tools.apify.storage.datasets import GET_DATASET, GET_DATASET_LIST, GET_DATASET_SCHEMA
from outlast.workflows.tools.apify.storage.get_dataset_items import GET_DATASET_ITEMS
from outlast.workflows.tools.apify.storage.get_key_value_store_record import GET_KEY_VALUE_STORE_RECORD
from outlast.workflows.tools.apify.storage.stores import (
    GET_KEY_VALUE_STORE,
    GET_KEY_VALUE_STORE_KEYS,
    GET_KEY_VALUE_STORE_LIST,
)
from outlast.workflows.tools.apify.widgets.call_actor import CALL_ACTOR_WIDGET
from outlast.workflows.tools.apify.widgets.fetch_actor_details import FETCH_ACTOR_DETAILS_WIDGET
from outlast.workflows.tools.apify.widgets.get_actor_run import GET_ACTOR_RUN_WIDGET
from outlast.workflows.tools.apify.widgets.search_actors import SEARCH_ACTORS_WIDGET
from outlast.workflows.tools.framework.mode import Mode
from outlast.workflows.tools.framework.waiting import WaitRule

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
