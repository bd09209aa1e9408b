"""Tasks as tables."""

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from pydantic import JsonValue
from rich.markup import escape

from outlast.activities.unicode_text import printable
from outlast.cli.runner import Context
from outlast.cli.show.output import Column, Rows, ago, ahead, local_time, one_line, styled_status
from outlast.client import Handoff, OpenHandoff, Run, Task
from outlast.wording import counted, duration

_WAITING_COLUMNS = (
    Column("TASK"),
    Column("TOOL", rank=2, least=12),
    Column("CALLED BY", rank=3),
    Column("QUESTION", rank=1, least=20),
    Column("UNTIL", rank=4),
    Column("AGE", rank=5),
)


async def show_waiting(context: Context) -> None:
    """Print the questions that the caller can answer, and the commands that answer them."""
    handed_over = await context.client.handoffs()
    own = {task.id: task async for task in context.client.list_tasks(status="input_required")}
    # Handoffs and approvals, then the other questions of the caller's tasks, such as those of MCP servers.
    found = [*handed_over, *(each for task in own.values() for each in _plain_questions(task))]
    answerable = [each for each in found if not (each.task_id in own and each.approvers)]
    output = context.output
    if output.as_json:
        output.document({"waiting": [{**each.document(), "own": each.task_id in own} for each in answerable]})
    elif answerable:
        output.table(_WAITING_COLUMNS, [_waiting_row(each, is_own=each.task_id in own) for each in answerable])
        if given := [(escape(each.task_id), arguments) for each in answerable if (arguments := _arguments(each))]:
            output.show("\n[bold]ARGUMENTS[/]")
            output.sheet(given)
        for command in _commands(answerable):
            context.suggest(answer=command)
    else:
        output.note("Nothing waits for you.")
    if len(answerable) < len(found):
        calls = counted(len(found) - len(answerable), "call")
        command = escape(context.options.command("tasks get TASK"))
        output.note(f"[dim]Waiting for the approval of another caller: {calls} of yours; {command} shows the roles.[/]")


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


def _waiting_row(question: OpenHandoff, *, is_own: bool) -> tuple[str, ...]:
    return (
        escape(question.task_id),
        escape(printable(question.tool)),
        "you" if is_own else escape(printable(question.maker or "")),
        escape(one_line(question.message)),
        ahead(question.deadline) if question.deadline else "",
        ago(question.created_at) if question.created_at else "",
    )


def _commands(asked: list[OpenHandoff]) -> list[str]:
    """Return a command for each kind of question. None names a task: an approver has to read which one it is."""
    ways = {
        "tasks answer TASK --yes": any(each.kind == "approval" for each in asked),
        "tasks answer TASK": any(each.kind != "approval" and each.audience == "person" for each in asked),
        "client": any(each.audience == "program" for each in asked),
    }
    return [command for command, is_needed in ways.items() if is_needed]


_SHOWN_CHARS = 300


def approval_rows(handoff: Handoff) -> list[tuple[str, str]]:
    """Return names and values (Rich markup) of a call to approve: caller, tool, arguments (cut), limits, deadline."""
    parameters = handoff.parameters
    rows = [
        ("called by", escape(printable(handoff.maker or "")) if handoff.approvers else ""),
        ("tool", escape(printable(handoff.tool))),
        ("actor", escape(printable(str(parameters.get("actor") or "")))),
        ("arguments", _arguments(handoff)),
        ("budget", escape(_budget(parameters.get("budget")))),
        ("approver", escape(f"another caller with {' and '.join(handoff.approvers)}") if handoff.approvers else ""),
        ("until", f"{local_time(handoff.deadline)} ({ahead(handoff.deadline)})" if handoff.deadline else ""),
    ]
    return [(f"  {name}", value) for name, value in rows if value]


def _arguments(handoff: Handoff | OpenHandoff) -> str:
    """Return the arguments of a hand-off, escaped and cut. The server has masked secrets. Empty without arguments."""
    parameters = handoff.parameters
    begin, omitted = parameters.get("arguments_begin"), parameters.get("arguments_omitted_bytes")
    if omitted:
        return escape(_cut(f"{omitted} bytes: {begin or ''}"))
    given = parameters.get("arguments") if handoff.kind == "approval" else parameters
    return escape(_cut(json.dumps(given, ensure_ascii=False))) if given else ""


def approval_text(handoff: Handoff) -> str:
    """Return the rows of a call to approve as lines of Rich markup."""
    return "\n".join(f"[dim]{name:<11}[/] {value}" for name, value in approval_rows(handoff))


def _budget(budget: JsonValue) -> str:
    """Return the limits of a call of an Actor; other calls have none."""
    if not isinstance(budget, dict):
        return ""
    words = {"max_total_charge_usd": "{} US dollars", "max_items": "{} rows", "max_run_seconds": "{} s"}
    return ", ".join(text.format(budget[name]) for name, text in words.items() if name in budget) or "no limit"


def _cut(text: str) -> str:
    line = printable(text)
    return line if len(line) <= _SHOWN_CHARS else f"{line[: _SHOWN_CHARS - 1]}…"


_TASK_COLUMNS = (
    Column("TASK"),
    Column("STATUS", rank=1),
    Column("AGE", rank=3),
    Column("TOOK", rank=4),
    Column("TOOL", rank=2, least=12),
    Column("MESSAGE", rank=5, least=20),
)
_EXECUTORS = {"none": "needs no run", "sync": "waits for the run", "async": "answers when the run has started"}


def task_table(tasks: Sequence[Task], *, with_caller: bool = False) -> tuple[tuple[Column, ...], list[tuple[str, ...]]]:
    """Return the columns and rows of a table of tasks."""
    if not with_caller:
        return _TASK_COLUMNS, [_task_row(task) for task in tasks]
    columns = (*_TASK_COLUMNS[:2], Column("CALLER", rank=2), *_TASK_COLUMNS[2:])
    rows = [_task_row(task) for task in tasks]
    callers = (escape(printable(task.caller or "")) for task in tasks)
    return columns, [(*row[:2], caller, *row[2:]) for row, caller in zip(rows, callers, strict=True)]


def _task_row(task: Task) -> tuple[str, ...]:
    return (
        escape(task.id),
        styled_status(task.status),
        ago(task.created_at),
        took(task) or "",
        escape(task.tool),
        escape(one_line(task.status_message)),
    )


def task_sheet(task: Task) -> Rows:
    """Return the details of one task."""
    questions: list[tuple[str, str]] = []
    for question in (task.input_requests or {}).values():
        questions.append(("asks", escape(one_line(question.message))))
        questions += approval_rows(question.handoff) if question.is_approval and question.handoff else []
    return [
        ("task", f"[bold]{escape(task.id)}[/]"),
        ("status", styled_status(task.status)),
        ("message", escape(one_line(task.status_message))),
        *questions,
        ("tool", escape(task.tool)),
        ("actor", escape(task.actor or "")),
        ("mode", f"{escape(task.mode)} ({_EXECUTORS.get(task.executor, task.executor)})"),
        ("caller", escape(printable(task.caller or ""))),
        ("session", escape(task.session_id or "")),
        ("called by", escape(task.called_by or "")),
        ("again of", escape(task.again_of or "")),
        ("created", f"{local_time(task.created_at)} ({ago(task.created_at)})"),
        ("finished", f"{local_time(task.finished_at)}, took {took(task)}" if task.finished_at else ""),
        *(_run_rows(task.run, already_shown=task.status_message or "") if task.run else []),
        ("cost", f"{task.cost_usd:.4f} US dollars" if task.cost_usd is not None else ""),
        ("workflow", escape(task.workflow_url or "")),
    ]


def took(task: Task) -> str | None:
    """Return how long a finished task took."""
    return duration((task.finished_at - task.created_at).total_seconds()) if task.finished_at else None


def age_seconds(task: Task) -> float:
    """Return the age of a task by the clock of this machine."""
    return max(0.0, (datetime.now(UTC) - task.created_at).total_seconds())


def _run_rows(run: Run, *, already_shown: str) -> list[tuple[str, str]]:
    message = run.status_message or ""
    return [
        ("run", f"{escape(run.run_id)}  {styled_status(run.status)}"),
        ("", escape(one_line(message)) if message not in already_shown else ""),
        ("", "adopted: the response to its start was lost" if run.adopted else ""),
        ("dataset", escape(run.dataset_id)),
        ("console", escape(run.console_url or "")),
    ]
