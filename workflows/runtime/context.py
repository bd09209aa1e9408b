"""`ToolContext`: everything that a handler may do."""

from dataclasses import dataclass
from datetime import timedelta

from pydantic import JsonValue
from temporalio import workflow

from outlast.activities.runs.contracts import Budget, RunState
from outlast.activities.unicode_text import valid_text
from outlast.workflows.contracts import memo
from outlast.workflows.contracts.questions import InputAnswer, InputRequest
from outlast.workflows.contracts.tool_calls import Progress, ToolCall
from outlast.workflows.runtime.masks import is_active
from outlast.workflows.runtime.questions import OpenQuestions
from outlast.workflows.stubs.actors import Actors
from outlast.workflows.stubs.mcp_actors import McpActors
from outlast.workflows.stubs.outputs import Outputs
from outlast.workflows.stubs.platform_reads import PlatformReads
from outlast.workflows.stubs.platform_writes import PlatformWrites
from outlast.workflows.stubs.runs import Runs
from outlast.workflows.stubs.search_attributes import TaskAttributes
from outlast.workflows.stubs.skills import Skills
from outlast.workflows.stubs.storages import Storages
from outlast.workflows.stubs.user_messages import UserMessages
from outlast.workflows.stubs.web import Web
from outlast.workflows.stubs.workspaces import Workspaces


@dataclass(frozen=True)
class Guarded:
    """A run that continues after its handler has returned, and its budget."""

    run: RunState
    budget: Budget


class ToolContext:
    """Everything that one call may do, for its caller and within its deadline.

    Methods raise `ToolError` when what they ask for is refused. A handler that does not catch it ends, and the error
    becomes the call's answer.
    """

    def __init__(self, call: ToolCall) -> None:
        """Act for the caller of `call`."""
        self.call = call
        self.guarded: Guarded | None = None
        self.recorded_rows: tuple[JsonValue, ...] = ()
        """Rows in the result of an activity of this call; the outcome refers to them."""
        self.attributes = TaskAttributes()
        self.questions = OpenQuestions(call)
        self.runs = Runs(call, self.attributes)
        self.storages = Storages(call)
        self.platform = PlatformReads(call)
        self.platform_writes = PlatformWrites(call)
        self.actors = Actors(call)
        self.mcp_actors = McpActors(call, self.ask_all)
        self.outputs = Outputs(call)
        self.web = Web(call)
        self.skills = Skills(call)
        self.workspaces = Workspaces(call)
        self.user_messages = UserMessages(call)

    @property
    def task_id(self) -> str:
        """The task's id, which is the workflow's."""
        return workflow.info().workflow_id

    @property
    def cancelled(self) -> bool:
        """Whether the call has been cancelled."""
        return workflow.cancellation_reason() is not None

    def offers(self, tool: str) -> bool:
        """Whether the caller may call `tool`: offered by its connection, not masked. Hints name no other tool."""
        offered = not self.call.offered_tools or tool in self.call.offered_tools
        return offered and is_active(tool, self.call.tool_mask)

    async def ask(self, key: str, question: InputRequest, *, timeout: timedelta | None = None) -> InputAnswer:
        """Ask the client one question and wait durably for the answer. Raises `TimeoutError` after `timeout`."""
        return (await self.questions.ask({key: question}, timeout=timeout))[key]

    def guard(self, run: RunState, budget: Budget) -> None:
        """Have the workflow follow `run` to its end after the handler has returned."""
        self.guarded = Guarded(run, budget)

    async def ask_all(
        self, questions: dict[str, InputRequest], *, timeout: timedelta | None = None
    ) -> dict[str, InputAnswer]:
        """Ask several questions at once; the answers by key. Raises `TimeoutError` after `timeout`."""
        return await self.questions.ask(questions, timeout=timeout)

    def progress(self, done: float, *, total: float | None = None, message: str) -> None:
        """Show the client how far the call is. Adds an event to the history: use it for steps, not for a ticker."""
        workflow.upsert_memo({memo.PROGRESS: Progress(done=done, total=total, message=message)})
        self.say(message)

    def say(self, markdown: str) -> None:
        """Show operators what the call is doing (Temporal UI, current details)."""
        workflow.set_current_details(valid_text(markdown))
