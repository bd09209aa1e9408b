"""Answers to a task's questions, checked and encrypted before the task receives them."""

from collections.abc import Iterable, Mapping
from typing import cast

from temporalio.client import WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError

from outlast.activities.contracts import Caller, ErrorCategory, ErrorEnvelope, Violation
from outlast.api.access.policy.contracts import Scope
from outlast.api.access.principal import Principal
from outlast.api.audit.log import Subject
from outlast.api.audit.records import AuditEvent
from outlast.api.errors import AnswerNotTaken, CallTooLarge, InvalidCall
from outlast.api.tasks.admission import Admission, require_approver
from outlast.api.tasks.arguments import invalid_call
from outlast.api.tasks.recorded_arguments import check_values
from outlast.api.tasks.task_text import is_approval
from outlast.contracts.tasks import Task
from outlast.workflows.contracts.questions import InputAnswer, InputRequest

MAX_ANSWERS_BYTES = 4 * 1024 * 1024
_EDITED = "/approval/arguments"


def answering_scope(question: InputRequest) -> Scope:
    """The scope that an answer requires: `approve` for the approval of a call, else `call`."""
    return "approve" if is_approval(question) else "call"


def require_answering(principal: Principal, task: Task, maker: str | None, answers: Mapping[str, InputAnswer]) -> None:
    """Raise `ForbiddenScope`, `ApproverNeeded` or `AnswerNotTaken` unless the caller may answer these questions."""
    questions = task.input_requests or {}
    principal.require("call", "approve")
    for key in answers:
        if key in questions:
            principal.require(answering_scope(questions[key]))
            require_approver(principal, maker, questions[key])
        elif principal.caller.id != maker:
            raise AnswerNotTaken(_not_open(f"Task {task.id} has no question {key[:100]!r} for you."))


async def sealed_answers(
    admission: Admission, caller: Caller, task: Task, answers: Mapping[str, InputAnswer]
) -> dict[str, InputAnswer]:
    """`answers` as a history may hold them: arguments edited in an approval are checked, and their secrets encrypted.

    Raises `InvalidCall`, `CallTooLarge`.
    """
    size = sum(len(answer.model_dump_json()) for answer in answers.values())
    if size > MAX_ANSWERS_BYTES:
        raise CallTooLarge(f"The answers have {size} bytes; the limit is {MAX_ANSWERS_BYTES}.")
    for key, answer in answers.items():
        check_values(answer.content, f"The answer to {key[:100]!r} has")
    return {key: await _sealed_answer(admission, caller, task, key, answer) for key, answer in answers.items()}


def answer_event(task: Task, answers: Mapping[str, InputAnswer]) -> tuple[AuditEvent, Subject]:
    """The audit event of these answers, with its subject: that of an approval if there is one."""
    about: Subject = {"tool": task.tool, "actor": task.actor, "session": task.session_id}
    for key, answer in answers.items():
        question = (task.input_requests or {}).get(key)
        if question is not None and is_approval(question):
            is_yes = answer.action == "accept" and answer.content.get("decision") == "yes"
            return AuditEvent.TASK_APPROVED if is_yes else AuditEvent.TASK_DECLINED, about
    return AuditEvent.TASK_ANSWERED, about


async def _sealed_answer(
    admission: Admission, caller: Caller, task: Task, key: str, answer: InputAnswer
) -> InputAnswer:
    question = (task.input_requests or {}).get(key)
    if question is None:
        return answer
    if question.handoff is None and answer.action == "accept":
        found = await admission.answer_violations(caller, question, answer.content)
        if found:
            message = "The answer does not match the schema of the question, which is still open."
            hint = "Correct every violation listed and answer again."
            raise invalid_call("", message, hint, _below(f"/{key}", found))
    edited = answer.content.get("arguments")
    if not is_approval(question) or not isinstance(edited, dict):
        return answer
    if question.approvers:
        violation = Violation(path=_EDITED, message="Answer yes or no: only the caller changes its call.")
        message = "The approver of another caller's call cannot change it."
        hint = "Answer no, with a note about what to change; the caller then calls again."
        raise invalid_call("", message, hint, (violation,))
    try:
        arguments = await admission.admit_edited(caller, mode=task.mode, tool=task.tool, arguments=edited)
    except InvalidCall as error:
        violations = _below(_EDITED, error.envelope.violations or ()) or None
        raise InvalidCall(error.envelope.model_copy(update={"violations": violations})) from error
    return answer.model_copy(update={"content": {**answer.content, "arguments": arguments}})


def _below(path: str, violations: Iterable[Violation]) -> tuple[Violation, ...]:
    """The violations with paths relative to the answers."""
    return tuple(Violation(path=f"{path}{one.path}", message=one.message) for one in violations)


def answer_error(task_id: str, error: WorkflowUpdateFailedError) -> InvalidCall:
    """The error for a rejected answer: `AnswerNotTaken` if the question is not open, else `InvalidCall`."""
    cause = error.cause
    if isinstance(cause, ApplicationError) and cause.details:
        envelope = ErrorEnvelope.model_validate(cast(object, cause.details[0]))
    else:
        envelope = _not_open(str(cause))
    named = envelope.model_copy(update={"message": f"Task {task_id}: {envelope.message}"})
    return AnswerNotTaken(named) if envelope.category is ErrorCategory.CONFLICT else InvalidCall(named)


def _not_open(reason: str) -> ErrorEnvelope:
    return ErrorEnvelope.permanent(
        ErrorCategory.CONFLICT, "", reason, hint="Get the task: its input_requests are the questions that are open."
    )
