"""Questions of a task; for an approval, the call that would be approved."""

import json

from pydantic import JsonValue
from rich.markup import escape

from outlast.activities.unicode_text import printable
from outlast.cli.show.wording import ahead, local_time, one_line
from outlast.client import Handoff, InputRequest

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
