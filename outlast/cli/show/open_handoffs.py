"""The open hand-offs of a caller, as `outlast tasks waiting` shows them."""

from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import JsonValue
from rich.markup import escape

from outlast.activities.unicode_text import printable
from outlast.cli.errors import ExitCode
from outlast.cli.running import Context
from outlast.cli.show.tables import Column
from outlast.cli.show.wording import ago, ahead, counted, one_line
from outlast.client import AsyncClient, OpenHandoff, Task

_COLUMNS = (
    Column("TASK"),
    Column("TOOL", rank=2, least=12),
    Column("CALLED BY", rank=3),
    Column("ASKS", rank=1, least=20),
    Column("UNTIL", rank=4),
    Column("AGE", rank=5),
)


@dataclass(frozen=True, slots=True)
class WaitingQuestion:
    """One open question, and whether a task of the caller's own asks it."""

    question: OpenHandoff
    is_own: bool

    @property
    def is_for_another(self) -> bool:
        """Whether the caller's own call waits for the approval of another one."""
        return self.is_own and bool(self.question.approvers)

    def document(self) -> dict[str, JsonValue]:
        """The question as JSON."""
        return {**self.question.document(), "own": self.is_own}


async def show_waiting(context: Context) -> ExitCode:
    """Print what waits for the caller, and how to answer."""
    found = await _waiting(context.client)
    own = [each for each in found if not each.is_for_another]
    output = context.output
    if output.as_json:
        output.document({"waiting": [each.document() for each in own]})
    elif own:
        output.table(_COLUMNS, [_row(each) for each in own])
        for command in _commands(own):
            output.command(f"answer  {context.options.command(command)}")
    else:
        output.note("Nothing waits for you.")
    if len(own) < len(found):
        calls = counted(len(found) - len(own), "call")
        command = escape(context.options.command("tasks get TASK"))
        output.note(f"[dim]For another caller's approval: {calls} of yours; {command} says whose.[/]")
    return ExitCode.OK


async def _waiting(client: AsyncClient) -> list[WaitingQuestion]:
    """The hand-offs and approvals, then what else the caller's own tasks ask, such as a question of an Actor's MCP
    server.
    """
    handed_over = await client.handoffs()
    own = {task.id: task async for task in client.list_tasks(status="input_required")}
    found = [WaitingQuestion(each, is_own=each.task_id in own) for each in handed_over]
    return found + [WaitingQuestion(each, is_own=True) for task in own.values() for each in _plain_questions(task)]


def _plain_questions(task: Task) -> Iterator[OpenHandoff]:
    for key, asked in (task.input_requests or {}).items():
        if asked.handoff is None:
            yield OpenHandoff(
                task_id=task.id,
                key=key,
                session_id=task.session_id,
                created_at=task.created_at,
                kind="question",
                tool=task.tool,
                message=asked.message,
                answer_schema=asked.requested_schema,
            )


def _row(waiting: WaitingQuestion) -> tuple[str, ...]:
    question = waiting.question
    return (
        escape(question.task_id),
        escape(printable(question.tool)),
        "you" if waiting.is_own else escape(printable(question.maker or "")),
        escape(one_line(question.message)),
        ahead(question.deadline) if question.deadline else "",
        ago(question.created_at) if question.created_at else "",
    )


def _commands(waiting: list[WaitingQuestion]) -> list[str]:
    """How to answer each kind of them. None names a task: an approver has to read which one it is."""
    asked = [each.question for each in waiting]
    ways = {
        "tasks answer TASK --yes": any(each.kind == "approval" for each in asked),
        "tasks answer TASK": any(each.kind != "approval" and each.audience == "person" for each in asked),
        "client": any(each.audience == "program" for each in asked),
    }
    return [command for command, is_needed in ways.items() if is_needed]
