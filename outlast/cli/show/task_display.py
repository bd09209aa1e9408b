"""Tasks as tables for people."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from pydantic import JsonValue
from rich.markup import escape

from outlast.activities.unicode_text import printable
from outlast.cli.errors import ExitCode
from outlast.cli.runner import Context
from outlast.cli.show.tables import Column
from outlast.cli.show.wording import ago, ahead, counted, duration, local_time, one_line, styled_status
from outlast.client import AsyncClient, Handoff, InputRequest, OpenHandoff, Run, Task

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
                audience="person",
                tool=task.tool,
                phase="",
                message=asked.message,
                parameters={},
                answer_schema=asked.requested_schema,
                deadline=None,
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


_SHOWN_CHARS = 300


def question_rows(question: InputRequest) -> list[tuple[str, str]]:
    """The question and what it is about: names and values in Rich markup."""
    rows = [("asks", escape(one_line(question.message)))]
    return rows + (approval_rows(question.handoff) if question.is_approval and question.handoff else [])


def approval_rows(handoff: Handoff) -> list[tuple[str, str]]:
    """The call to approve: by whom it is called, tool, Actor, arguments (cut), budget, by whom, and until when."""
    parameters = handoff.parameters
    begin, omitted = parameters.get("arguments_begin"), parameters.get("arguments_omitted_bytes")
    arguments = f"{omitted} bytes: {begin or ''}" if omitted else _json(parameters.get("arguments"))
    rows = [
        ("called by", escape(printable(handoff.maker or "")) if handoff.approvers else ""),
        ("tool", escape(printable(handoff.tool))),
        ("actor", escape(printable(str(parameters.get("actor") or "")))),
        ("arguments", escape(_cut(arguments))),
        ("budget", escape(_budget(parameters.get("budget")))),
        ("approver", escape(f"another caller with {' and '.join(handoff.approvers)}") if handoff.approvers else ""),
        ("until", f"{local_time(handoff.deadline)} ({ahead(handoff.deadline)})" if handoff.deadline else ""),
    ]
    return [(f"  {name}", value) for name, value in rows if value]


def approval_text(handoff: Handoff) -> str:
    """The call to approve, as lines of Rich markup."""
    return "\n".join(f"[dim]{name:<11}[/] {value}" for name, value in approval_rows(handoff))


def _budget(budget: JsonValue) -> str:
    """The limits of a call of an Actor; empty for another call, which has none."""
    if not isinstance(budget, dict):
        return ""
    words = {"max_total_charge_usd": "{} US dollars", "max_items": "{} rows", "max_run_seconds": "{} s"}
    return ", ".join(text.format(budget[name]) for name, text in words.items() if name in budget) or "no limit"


def _json(value: JsonValue) -> str:
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def _cut(text: str) -> str:
    line = printable(text)
    return line if len(line) <= _SHOWN_CHARS else f"{line[: _SHOWN_CHARS - 1]}…"


TASK_COLUMNS = (
    Column("TASK"),
    Column("STATUS", rank=1),
    Column("AGE", rank=3),
    Column("TOOK", rank=4),
    Column("TOOL", rank=2, least=12),
    Column("MESSAGE", rank=5, least=20),
)


def task_row(task: Task) -> tuple[str, ...]:
    """The cells of one task, in the order of `TASK_COLUMNS`."""
    return (
        escape(task.id),
        styled_status(task.status),
        ago(task.created_at),
        took(task) or "",
        escape(task.tool),
        escape(one_line(task.status_message)),
    )


def task_sheet(task: Task) -> list[tuple[str, str]]:
    """Everything about one task: names and values in Rich markup."""
    rows = [
        ("task", f"[bold]{escape(task.id)}[/]"),
        ("status", styled_status(task.status)),
        ("message", escape(one_line(task.status_message))),
        *(row for question in (task.input_requests or {}).values() for row in question_rows(question)),
        ("tool", escape(task.tool)),
        ("actor", escape(task.actor or "")),
        ("mode", f"{escape(task.mode)} ({_EXECUTORS.get(task.executor, task.executor)})"),
        ("session", escape(task.session_id or "")),
        ("created", f"{local_time(task.created_at)} ({ago(task.created_at)})"),
        ("finished", f"{local_time(task.finished_at)}, took {took(task)}" if task.finished_at else ""),
        *(_run_rows(task.run, already_shown=task.status_message or "") if task.run else []),
        ("cost", f"{task.cost_usd:.4f} US dollars" if task.cost_usd is not None else ""),
        ("workflow", escape(task.workflow_url or "")),
    ]
    return [(name, value) for name, value in rows if value]


def took(task: Task) -> str | None:
    """How long a finished task took."""
    return duration((task.finished_at - task.created_at).total_seconds()) if task.finished_at else None


def age_seconds(task: Task) -> float:
    """How old a task is by this machine's clock."""
    return max(0.0, (datetime.now(UTC) - task.created_at).total_seconds())


_EXECUTORS = {
    "none": "answers by itself",
    "sync": "waits for the run",
    "async": "answers when the run has started",
}


def _run_rows(run: Run, *, already_shown: str) -> list[tuple[str, str]]:
    message = run.status_message or ""
    return [
        ("run", f"{escape(run.run_id)}  {styled_status(run.status)}"),
        ("", escape(one_line(message)) if message not in already_shown else ""),
        ("", "adopted: the answer to its start had been lost" if run.adopted else ""),
        ("dataset", escape(run.dataset_id)),
        ("console", escape(run.console_url or "")),
    ]
