"""Checking a client's answers against the questions that a task asks."""

from collections.abc import Mapping

from activities.models import ErrorCategory, ErrorEnvelope, Violation
from api.arguments import schema_violations
from api.errors import InvalidCall
from workflows.inputs import InputAnswer, InputRequest


def check_answers(task_id: str, asked: Mapping[str, InputRequest], answers: Mapping[str, InputAnswer]) -> None:
    """Raise `InvalidCall` for an answer to what is not asked, or one that breaks its question's schema."""
    unknown = sorted(set(answers) - set(asked))
    if unknown:
        raise InvalidCall(not_asked(task_id, f"Nothing is asked under {', '.join(unknown)}."))
    violations = [
        Violation(path=f"/{key}{violation.path}", message=violation.message)
        for key, answer in answers.items()
        if answer.action == "accept"
        for violation in schema_violations(asked[key].requested_schema, answer.content)
    ]
    if violations:
        raise InvalidCall(
            ErrorEnvelope(
                tool="",
                message=f"The answer does not fit the question of task {task_id}, which still waits.",
                category=ErrorCategory.VALIDATION,
                retryable=False,
                hint="Mend every violation listed and answer again.",
                violations=tuple(violations),
            )
        )


def not_asked(task_id: str, reason: str) -> ErrorEnvelope:
    """The envelope for an answer to what a task does not ask (any more)."""
    return ErrorEnvelope(
        tool="",
        message=f"Task {task_id} did not take the answer: {reason}",
        category=ErrorCategory.CONFLICT,
        retryable=False,
        hint="Look at the task: its input_requests are the questions that are open.",
    )
