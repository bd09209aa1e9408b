"""The question to a client's user whether a call was executed whose outcome is unknown."""

from outlast.activities.unicode_text import printable
from outlast.api.access.principal import Principal
from outlast.api.mcp.client_questions import answerable
from outlast.api.mcp.protocol.versions import Context
from outlast.api.temporal.resolutions import is_outcome_unknown
from outlast.contracts.tasks import ResolveRequest, TaskAnswer
from outlast.workflows.contracts.questions import Handoff, InputAnswer, InputRequest

OUTCOME_KEY = "outcome"
_MAX_NOTE_CHARS = 1_000
_SCHEMA = {
    "type": "object",
    "properties": {
        "outcome": {
            "type": "string",
            "title": "Was it executed?",
            "description": "done: it was. not_done: it was not. retry: call the tool again.",
            "enum": ["done", "not_done", "retry"],
        },
        "note": {"type": "string", "title": "Note", "maxLength": _MAX_NOTE_CHARS},
    },
    "required": ["outcome"],
}


def outcome_questions(ctx: Context, principal: Principal, answer: TaskAnswer) -> dict[str, InputRequest]:
    """Return the question for a call with an unknown outcome, by its key; empty if the client cannot answer it.

    As an approval, it is for a person, and needs the scope `approve`.
    """
    if answer.result is None or not is_outcome_unknown(answer.result):
        return {}
    error = answer.result.error
    assert error is not None
    maker = principal.caller.id
    question = InputRequest(
        message=printable(f"{error.message} Find out whether it was executed before you answer."),
        requested_schema=_SCHEMA,
        handoff=Handoff(kind="approval", tool=answer.task.tool, phase=OUTCOME_KEY, maker=maker),
    )
    return answerable(ctx, {OUTCOME_KEY: question}, principal)


def resolution_in(answer: InputAnswer) -> ResolveRequest | None:
    """Return what the user found out; None if the answer does not say it."""
    outcome, note = answer.content.get("outcome"), answer.content.get("note")
    if answer.action != "accept" or outcome not in ("done", "not_done", "retry"):
        return None
    note = note[:_MAX_NOTE_CHARS] if isinstance(note, str) and note.strip() else None
    return ResolveRequest(outcome=outcome, note=note)
