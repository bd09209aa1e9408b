"""An outcome as pieces for a model, independent of the provider: texts and media.

What a provider cannot show is described in text, never dropped.
"""

from collections.abc import Container

from outlast.activities.contracts import JsonObject
from outlast.activities.conversations.contracts import MediaPart
from outlast.activities.llm.providers.requests import shown_media
from outlast.api.access.permissions import approver_words
from outlast.api.adapters.model_calls import Outcome
from outlast.api.tasks.question_text import is_approval
from outlast.workflows.contracts.questions import InputRequest
from outlast.workflows.tools.answers import Piece, answer_facts, answer_pieces, as_json


def pieces_of(outcome: Outcome, shown: Container[str] = frozenset()) -> list[Piece]:
    """The answer, followed by its details as JSON. Media of types not in `shown` are described in text."""
    found = details(outcome)
    pieces = [*answer_pieces(outcome.result), *([as_json(found)] if found else [])]
    return [shown_media(piece, shown) if isinstance(piece, MediaPart) else piece for piece in pieces]


def details(outcome: Outcome) -> JsonObject:
    """The facts that a model or program needs besides the text: errors, stored outputs, running tasks.

    Empty for an answer without any of them.
    """
    result, task = outcome.result, outcome.task
    found = answer_facts(result, tool=outcome.tool)
    if task is not None and (result.is_error or not outcome.finished):
        found["task"] = {"id": task.id, "status": task.status.value}
    if task is not None and not outcome.finished and task.input_requests and task.asks_people:
        found["questions"] = {
            key: _question_data(question)
            for key, question in task.input_requests.items()
            if not question.is_for_program
        }
    return found


def _question_data(question: InputRequest) -> JsonObject:
    data: JsonObject = {"message": question.message, "schema": question.requested_schema}
    if question.handoff is not None and is_approval(question):
        data["approve"] = {"tool": question.handoff.tool, **question.handoff.parameters}
        if question.approvers:
            data["approval_by"] = approver_words(question.approvers)
    return data
