"""UI mode: a call answers at once with the run's id; a widget follows the run."""

from workflows.executors import AsyncActorExecutor
from workflows.tools.mode import Mode
from workflows.tools.openai.call_actor import call_actor_tool
from workflows.tools.openai.get_actor_run import GET_ACTOR_RUN
from workflows.tools.openai.present_run import present_started_run

_EXECUTOR = AsyncActorExecutor(present_started_run)

MODE = Mode(name="openai", executor=_EXECUTOR, tools=(call_actor_tool(_EXECUTOR), GET_ACTOR_RUN))
