"""What a task says when it refuses an answer, and what is made of an answer before the task gets it."""

from collections.abc import Mapping
from typing import cast

from temporalio.client import WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError

from outlast.activities.contracts import Caller
from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope, Violation
from outlast.api.contracts.tasks import Task
from outlast.api.errors import AnswerNotTaken, CallTooLarge, InvalidCall
from outlast.api.tasks.call_builder import CallBuilder
from outlast.workflows.contracts.questions import InputAnswer, InputRequest

MAX_ANSWERS_BYTES = 4 * 1024 * 1024


class Answers:
    """Makes answers fit to stand in a history."""

    def __init__(self, builder: CallBuilder) -> None:
        """Arguments that somebody edits while approving a call are checked and sealed by `builder`."""
        self._builder = builder

    async def ready(self, caller: Caller, task: Task, answers: Mapping[str, InputAnswer]) -> dict[str, InputAnswer]:
        """`answers` with the secrets in them sealed. Raises `InvalidCall`, `CallTooLarge`."""
        size = sum(len(answer.model_dump_json()) for answer in answers.values())
        if size > MAX_ANSWERS_BYTES:
            raise CallTooLarge(f"The answers have {size} bytes; at most {MAX_ANSWERS_BYTES} are taken.")
        asked = task.input_requests or {}
        return {key: await self._ready(caller, task, asked.get(key), answer) for key, answer in answers.items()}

    async def _ready(
        self, caller: Caller, task: Task, question: InputRequest | None, answer: InputAnswer
    ) -> InputAnswer:
        edited = answer.content.get("arguments")
        is_approval = question is not None and question.handoff is not None and question.handoff.kind == "approval"
        if not is_approval or not isinstance(edited, dict):
            return answer
        try:
            arguments = await self._builder.edited(caller, mode=task.mode, tool=task.tool, arguments=edited)
        except InvalidCall as error:
            raise InvalidCall(_of_the_answer(error.envelope)) from error
        return answer.model_copy(update={"content": {**answer.content, "arguments": arguments}})


def refusal_of(task_id: str, error: WorkflowUpdateFailedError) -> InvalidCall:
    """Why the task did not take an answer."""
    cause = error.cause
    if isinstance(cause, ApplicationError) and cause.details:
        envelope = ErrorEnvelope.model_validate(cast(object, cause.details[0]))
    else:
        envelope = not_taken(str(cause))
    named = envelope.model_copy(update={"message": f"Task {task_id}: {envelope.message}"})
    return AnswerNotTaken(named) if envelope.category is ErrorCategory.CONFLICT else InvalidCall(named)


def not_taken(reason: str) -> ErrorEnvelope:
    """The envelope for an answer that comes at the wrong time."""
    return ErrorEnvelope(
        tool="",
        message=reason,
        category=ErrorCategory.CONFLICT,
        retryable=False,
        hint="Look at the task: its input_requests are the questions that are open.",
    )


def _of_the_answer(envelope: ErrorEnvelope) -> ErrorEnvelope:
    """Violations of arguments as violations of the answer that they are part of."""
    violations = tuple(
        Violation(path=f"/approval/arguments{entry.path}", message=entry.message) for entry in envelope.violations or ()
    )
    return envelope.model_copy(update={"violations": violations or None})
