"""Counts identical failures, so that a model is reminded once and then stopped when it repeats them. Pure."""

from typing import Literal

from pydantic import Field

from outlast.activities.contracts import Contract

REMIND_AFTER = 2
"""Identical failures after which the model is reminded, once."""
STOP_AFTER = 2
"""Identical permanent failures (not retryable) after which a turn is stopped."""
STOP_AFTER_RETRYABLE = 4
"""Identical transient failures (retryable) after which a turn is stopped."""
_MAX_COUNTED = 200
"""Maximum number of different failures that are counted. The least recently seen ones are dropped."""


class CallOutcome(Contract):
    """How one call ended, as far as it matters here. `signature` is None when it did not fail."""

    tool: str
    signature: str | None = Field(default=None, description="See `outlast.workflows.stubs.failures.signature`.")
    retryable: bool = False


class Failure(Contract):
    """One kind of failure, and how often it has come."""

    signature: str
    tool: str
    retryable: bool
    count: int = 1

    @property
    def limit(self) -> int:
        """The number of repetitions after which a turn is stopped."""
        return STOP_AFTER_RETRYABLE if self.retryable else STOP_AFTER


class SelfCorrection(Contract):
    """The failures counted so far, the one seen last at the end, and whether the latest outcome was one."""

    failures: tuple[Failure, ...] = ()
    latest_failed: bool = False

    @property
    def counts(self) -> dict[str, int]:
        """The number of occurrences of each failure, by its signature."""
        return {failure.signature: failure.count for failure in self.failures}

    @property
    def latest(self) -> Failure | None:
        """The latest outcome if it was a failure."""
        return self.failures[-1] if self.latest_failed and self.failures else None


class Verdict(Contract):
    """What follows from the latest outcome. A stop whose failure was never reminded of carries the reminder too."""

    action: Literal["none", "reminder", "stop"] = "none"
    tool: str | None = None
    count: int = Field(default=0, description="How often the failure has come.")
    reminder: str | None = Field(default=None, description="What the model is told, once per kind of failure.")


class EarlierFailures(Contract):
    """What has failed before something begins to count: how often, and of which failures a model was reminded."""

    counts: dict[str, int] = Field(default_factory=dict, description="By the failures' signatures.")
    reminded: tuple[str, ...] = ()


_NONE = EarlierFailures()


def observe(state: SelfCorrection, outcome: CallOutcome) -> SelfCorrection:
    """`state` after one more call."""
    if outcome.signature is None:
        return state.model_copy(update={"latest_failed": False})
    before = next((failure for failure in state.failures if failure.signature == outcome.signature), None)
    failure = Failure(
        signature=outcome.signature,
        tool=outcome.tool,
        retryable=outcome.retryable,
        count=before.count + 1 if before else 1,
    )
    others = tuple(known for known in state.failures if known is not before)
    return SelfCorrection(failures=(*others, failure)[-_MAX_COUNTED:], latest_failed=True)


def verdict_on(state: SelfCorrection, earlier: EarlierFailures = _NONE) -> Verdict:
    """The verdict after the latest outcome in `state`: nothing, a reminder (once per kind of failure), or a stop.

    `earlier` holds the failures from before `state` began to count. They can make a reminder due, but not a stop.
    """
    failure = state.latest
    if failure is None:
        return Verdict()
    count = failure.count + earlier.counts.get(failure.signature, 0)
    if count < min(REMIND_AFTER, failure.limit):
        return Verdict()
    stops, is_due = failure.count >= failure.limit, count == REMIND_AFTER or failure.count == 1
    reminds = is_due and failure.signature not in earlier.reminded
    if not stops and not reminds:
        return Verdict(tool=failure.tool, count=count)
    return Verdict(
        action="stop" if stops else "reminder",
        tool=failure.tool,
        count=count,
        reminder=_reminder(failure.tool, count) if reminds else None,
    )


def _reminder(tool: str, count: int) -> str:
    return (
        f"{tool} has failed {count} times in the same way. Read the error: its message, hint and "
        "violations say what is wrong. Do not repeat the call as it was; change what the error names, or try another "
        "tool."
    )
