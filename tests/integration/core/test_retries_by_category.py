"""What the classifier calls retryable is tried again by the engine, and nothing else: counted on a real worker."""

import asyncio
import json
import uuid
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.failures.classify import RETRYABLE, ToolFailure, as_activity_failure, classify, failure
from outlast.workflows.handler_api.failures import envelope_of

ATTEMPTS = 3
POLICY = RetryPolicy(initial_interval=timedelta(milliseconds=10), maximum_attempts=ATTEMPTS)
SECRET = "Bearer 0123456789abcdef"
attempts: Counter[str] = Counter()


@activity.defn
async def fail_as(category: ErrorCategory) -> None:
    """Fail as an activity of ours does; what waits for capacity would wait for seconds, and waits for less here."""
    attempts[category] += 1
    retryable = category in RETRYABLE
    ready = ErrorEnvelope(tool="", message=f"It said {SECRET}", category=category, retryable=retryable)
    if category is ErrorCategory.CAPACITY:
        envelope = classify(ToolFailure(ready), attempt=activity.info().attempt)
        raise failure(envelope, retry_delay=timedelta(milliseconds=10))
    with as_activity_failure():
        raise ToolFailure(ready)


@workflow.defn
class FailsAs:
    """Gives the envelope of the activity's failure."""

    @workflow.run
    async def run(self, category: ErrorCategory) -> ErrorEnvelope:
        try:
            await workflow.execute_activity(
                fail_as, category, start_to_close_timeout=timedelta(seconds=30), retry_policy=POLICY
            )
        except ActivityError as error:
            return envelope_of(error, tool="a-tool")
        raise ApplicationError("The activity did not fail.")  # another exception would be retried for ever


async def test_the_engine_retries_what_is_retryable_and_nothing_else(temporal: Client) -> None:
    attempts.clear()
    queue = f"retries-{uuid.uuid4()}"
    async with Worker(
        temporal,
        task_queue=queue,
        workflows=[FailsAs],
        activities=[fail_as],
        workflow_runner=UnsandboxedWorkflowRunner(),
    ):
        envelopes = await asyncio.gather(
            *(
                temporal.execute_workflow(FailsAs.run, category, id=f"{queue}-{category}", task_queue=queue)
                for category in ErrorCategory
            )
        )
    passing = {"network", "timeout", "rate_limit", "capacity", "platform"}
    assert {category.value for category in RETRYABLE} == passing
    for category, envelope in zip(ErrorCategory, envelopes, strict=True):
        expected = ATTEMPTS if category in passing else 1
        assert (category, attempts[category], envelope.attempt) == (category, expected, expected)
        assert (envelope.tool, envelope.category, envelope.retryable) == ("a-tool", category, category in passing)
        assert envelope.message == "It said [redacted]"


@activity.defn
async def answer_unwritably() -> object:
    """Succeed with a result that JSON cannot hold."""
    attempts["unwritable"] += 1
    return object()


@activity.defn
async def fail_like(kind: str) -> None:
    """Fail in the same way each time, or in another way each time."""
    attempts[kind] += 1
    errors = {
        "unreadable": json.JSONDecodeError("Expecting value", "<html>", attempts[kind]),
        "outage": ConnectionError("refused"),
        "changing": json.JSONDecodeError(f"flaw {'x' * attempts[kind]}", "<html>", 0),
    }
    with as_activity_failure():
        raise errors[kind]


@workflow.defn
class TriesEightTimes:
    """Gives the message of the activity's last failure."""

    @workflow.run
    async def run(self, kind: str) -> str:
        policy = RetryPolicy(initial_interval=timedelta(milliseconds=10), maximum_attempts=8, backoff_coefficient=1)
        limit = timedelta(seconds=30)
        try:
            if kind == "unwritable":
                await workflow.execute_activity(answer_unwritably, start_to_close_timeout=limit, retry_policy=policy)
            else:
                await workflow.execute_activity(fail_like, kind, start_to_close_timeout=limit, retry_policy=policy)
        except ActivityError as error:
            return str(error.cause)
        return "The activity did not fail."  # an exception would be retried for ever


async def test_what_is_the_same_five_times_ends_unless_it_is_an_outage(temporal: Client) -> None:
    attempts.clear()
    queue = f"repeats-{uuid.uuid4()}"
    kinds = ["unwritable", "unreadable", "outage", "changing"]
    async with Worker(
        temporal,
        task_queue=queue,
        workflows=[TriesEightTimes],
        activities=[answer_unwritably, fail_like],
        workflow_runner=UnsandboxedWorkflowRunner(),
    ):
        calls = (
            temporal.execute_workflow(TriesEightTimes.run, kind, id=f"{queue}-{kind}", task_queue=queue)
            for kind in kinds
        )
        messages = dict(zip(kinds, await asyncio.gather(*calls), strict=True))
    assert attempts == {"unwritable": 1, "unreadable": 5, "outage": 8, "changing": 8}
    assert "cannot be written as JSON" in messages["unwritable"]
    assert "It failed in the same way 5 times and is not retried." in messages["unreadable"]


@pytest.mark.parametrize("category", list(ErrorCategory))
def test_every_category_is_documented(category: ErrorCategory) -> None:
    page = (Path(__file__).parents[3] / "docs" / "rest-api.md").read_text()
    row = next(line for line in page.splitlines() if line.startswith(f"| `{category.value}` |"))
    assert row.split("|")[2].strip().startswith("yes" if category in RETRYABLE else "no")
