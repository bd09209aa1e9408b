"""UI mode: a call answers at once with the run's id; a widget follows the run."""

from outlast.workflows.tools.framework.executors import AsyncActorExecutor
from outlast.workflows.tools.framework.mode import Instruction, Mode
from outlast.workflows.tools.openai.call_actor import call_actor_tool
from outlast.workflows.tools.openai.call_actor_task import call_actor_task_tool
from outlast.workflows.tools.openai.fetch_actor_details import FETCH_ACTOR_DETAILS
from outlast.workflows.tools.openai.fetch_actor_details_internal import FETCH_ACTOR_DETAILS_INTERNAL
from outlast.workflows.tools.openai.get_actor_run import GET_ACTOR_RUN, present_started_run
from outlast.workflows.tools.openai.search_actors import SEARCH_ACTORS
from outlast.workflows.tools.openai.search_actors_internal import SEARCH_ACTORS_INTERNAL
from outlast.workflows.tools.openai.widgets import CALLED_BY_WIDGETS, batch_widget_metas, run_widget_meta, silent_meta

_EXECUTOR = AsyncActorExecutor(present_started_run)

MODE = Mode(
    name="openai",
    instructions=(
        Instruction(
            "- Tools that run an Actor answer as soon as the run has started. A widget shows the user its progress:\n"
            "  do not ask for it again and again.",
            about="runs",
        ),
        Instruction("- Read the rows of a run with get-actor-output when it has ended.", ("get-actor-output",)),
        Instruction(
            "- For look-ups that the user need not see, use search-actors-internal and fetch-actor-details-internal.",
            ("search-actors-internal", "fetch-actor-details-internal"),
        ),
    ),
    executor=_EXECUTOR,
    tools=(
        SEARCH_ACTORS,
        SEARCH_ACTORS_INTERNAL,
        FETCH_ACTOR_DETAILS,
        FETCH_ACTOR_DETAILS_INTERNAL,
        call_actor_tool(_EXECUTOR),
        GET_ACTOR_RUN,
        call_actor_task_tool(_EXECUTOR),
    ),
    has_widgets=True,
    actor_tool_meta=run_widget_meta(),
    actor_tool_purpose=(
        "This tool starts the Actor {actor} and answers at once with the run's id. A widget shows its progress."
    ),
    common_meta={**{name: silent_meta() for name in CALLED_BY_WIDGETS}, **batch_widget_metas()},
    companions=(*CALLED_BY_WIDGETS, SEARCH_ACTORS_INTERNAL.name),
)
