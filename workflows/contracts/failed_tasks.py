"""Failures with which the workflows of failed tasks and stopped batches end.

The message is for people, in Temporal's own UI and CLI. The detail is the outcome, which the workflow of a completed
task or batch has as its result. Until 2026-11-28, failed ones had it as their result, too.
"""

from typing import TypeVar

from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from outlast.activities.bounds import reading_recorded
from outlast.activities.contracts import Contract
from outlast.workflows.contracts.tool_calls import ToolOutcome

TASK_FAILED = "TaskFailed"
"""Type of the failure of a task."""
_MAX_CHARS = 2_000
Outcome = TypeVar("Outcome", bound=Contract)


def with_outcome(message: str, outcome: Contract, *, kind: str) -> ApplicationError:
    """Return a failure with an outcome.

    It is benign: the SDK does not count it among failed workflows, because a failed call is no defect of the engine.
    """
    return ApplicationError(
        message[:_MAX_CHARS], outcome, type=kind, non_retryable=True, category=ApplicationErrorCategory.BENIGN
    )


def outcome_in(failure: BaseException | None, kind: str, contract: type[Outcome]) -> Outcome | None:
    """Return the outcome in a failure of a kind; None for any other failure."""
    if not isinstance(failure, ApplicationError) or failure.type != kind or not failure.details:
        return None
    with reading_recorded():
        return contract.model_validate(failure.details[0])


def failure_of(outcome: ToolOutcome) -> ApplicationError:
    """Return the failure for the outcome of a failed task."""
    error = outcome.result.error
    if error is None:
        message = outcome.result.headline or "The tool answered with an error."
    else:
        message = f"{error.category.value}: {error.message}" + (f" {error.hint}" if error.hint else "")
    return with_outcome(message, outcome, kind=TASK_FAILED)


def outcome_of(failure: BaseException | None) -> ToolOutcome | None:
    """Return the outcome of a failed task; None for the failure of a workflow that did not end by itself."""
    return outcome_in(failure, TASK_FAILED, ToolOutcome)
