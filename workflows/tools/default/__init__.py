"""Default mode: a call waits for its run and answers with the rows, as plain content."""

from outlast.workflows.tools.default.call_actor import call_actor_tool
from outlast.workflows.tools.default.call_actor_task import call_actor_task_tool
from outlast.workflows.tools.default.fetch_actor_details import FETCH_ACTOR_DETAILS
from outlast.workflows.tools.default.get_actor_run import GET_ACTOR_RUN, present_finished_run
from outlast.workflows.tools.default.search_actors import SEARCH_ACTORS
from outlast.workflows.tools.framework.executors import SyncActorExecutor
from outlast.workflows.tools.framework.mode import Instruction, Mode

_EXECUTOR = SyncActorExecutor(present_finished_run)

MODE = Mode(
    name="default",
    instructions=(
        Instruction(
            "- Tools that run an Actor wait for the run and answer with its first rows. When it takes longer than the\n"
            "  wait, they answer with its state and the task's id.",
            about="runs",
        ),
    ),
    executor=_EXECUTOR,
    tools=(
        SEARCH_ACTORS,
        FETCH_ACTOR_DETAILS,
        call_actor_tool(_EXECUTOR),
        GET_ACTOR_RUN,
        call_actor_task_tool(_EXECUTOR),
    ),
)
