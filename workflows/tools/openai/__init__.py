"""UI mode: a call answers at once with the run's id; a widget follows the run."""

from outlast.workflows.runtime.executors import AsyncActorExecutor
from outlast.workflows.tools.framework.mode import Mode
from outlast.workflows.tools.openai.call_actor import call_actor_tool
from outlast.workflows.tools.openai.fetch_actor_details import FETCH_ACTOR_DETAILS
from outlast.workflows.tools.openai.fetch_actor_details_internal import FETCH_ACTOR_DETAILS_INTERNAL
from outlast.workflows.tools.openai.get_actor_run import GET_ACTOR_RUN
from outlast.workflows.tools.openai.present_run import present_started_run
from outlast.workflows.tools.openai.search_actors import SEARCH_ACTORS
from outlast.workflows.tools.openai.search_actors_internal import SEARCH_ACTORS_INTERNAL
from outlast.workflows.tools.openai.widgets import CALLED_BY_WIDGETS, run_widget_meta, silent_meta

_EXECUTOR = AsyncActorExecutor(present_started_run)

MODE = Mode(
    name="openai",
    instructions=(
        "- call-actor and the tools of single Actors answer as soon as the run has started. A widget shows the user\n"
        "  its progress: do not ask for it again and again. Read the rows with get-actor-output when it has ended.\n"
        "- For look-ups that the user need not see, use search-actors-internal and fetch-actor-details-internal."
    ),
    executor=_EXECUTOR,
    tools=(
        SEARCH_ACTORS,
        SEARCH_ACTORS_INTERNAL,
        FETCH_ACTOR_DETAILS,
        FETCH_ACTOR_DETAILS_INTERNAL,
        call_actor_tool(_EXECUTOR),
        GET_ACTOR_RUN,
    ),
    actor_tool_meta=run_widget_meta(),
    common_meta={name: silent_meta() for name in CALLED_BY_WIDGETS},
)
