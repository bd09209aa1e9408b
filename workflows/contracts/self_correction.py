"""Counts identical failures and identical answers, so that a model is reminded once and then stopped. Pure."""

from typing import Literal

from pydantic import Field

from outlast.activities.contracts import Contract

REMIND_AFTER = 2
"""Identical failures after which the model is reminded, once."""
STOP_AFTER = 2
"""Identical permanent failures (not retryable) after which a turn is stopped."""
STOP_AFTER_RETRYABLE = 4
"""Identical transient failures (retryable) after which a turn is stopped."""
REMIND_AFTER_ANSWERS = 3
"""Identical calls with identical answers after which the model is reminded, once."""
STOP_AFTER_ANSWERS = 6
"""Identical calls with identical answers after which a turn is stopped."""
_MAX_COUNTED = 200
"""Maximum number of different failures, and of answers, that are counted. The least recently seen ones are dropped."""


class CallOutcome(Contract):
    """The outcome of one call. A call without either signature is not counted."""

    tool: str
    signature: str | None = Field(
        default=None, description="Signature of a failed call; see `outlast.workflows.signatures.signature`."
    )
    retryable: bool = False
    answer_signature: str | None = Field(default=None, description="Signature of a successful call and its answer.")

    @property
    def key(self) -> str | None:
        """The key by which it is counted."""
        return self.signature or self.answer_signature


class Failure(Contract):
    """One kind of failure, and its number of occurrences."""

    signature: str
    tool: str
    retryable: bool
    count: int = 1

    @property
    def limit(self) -> int:
        """The number of repetitions after which a turn is stopped."""
        return STOP_AFTER_RETRYABLE if self.retryable else STOP_AFTER


class RepeatedAnswer(Contract):
    """A successful call, and the number of identical calls with the same answer."""

    signature: str
    tool: str
    count: int = 1


class SelfCorrection(Contract):
    """The failures and answers counted so far, those seen last at the end, and which of them the latest outcome was."""

    failures: tuple[Failure, ...] = ()
    latest_failed: bool = False
    answers: tuple[RepeatedAnswer, ...] = ()
    latest_answered: bool = False

    @property
    def counts(self) -> dict[str, int]:
        """The number of occurrences of each failure, by its signature."""
        return {failure.signature: failure.count for failure in self.failures}

    @property
    def latest(self) -> Failure | None:
        """The latest outcome if it was a failure."""
        return self.failures[-1] if self.latest_failed and self.failures else None


class Verdict(Contract):
    """Consequence of the latest outcome. A stop without an earlier reminder carries the reminder."""

    repeats: bool | None = Field(default=None, description="True if the call succeeded with a known answer.")

    action: Literal["none", "reminder", "stop"] = "none"
    tool: str | None = None
    count: int = Field(default=0, description="Number of occurrences.")
    reminder: str | None = Field(default=None, description="Text for the model, once per kind of failure.")


class EarlierFailures(Contract):
    """Failures counted so far, and those that the model was reminded of."""

    counts: dict[str, int] = Field(default_factory=dict, description="By the failures' signatures.")
    reminded: tuple[str, ...] = ()


_NONE = EarlierFailures()


def observe(state: SelfCorrection, outcome: CallOutcome) -> SelfCorrection:
    """`state` after one more call."""
    if outcome.signature is None:
        return _observe_answer(state, outcome)
    before = next((failure for failure in state.failures if failure.signature == outcome.signature), None)
    failure = Failure(
        signature=outcome.signature,
        tool=outcome.tool,
        retryable=outcome.retryable,
        count=before.count + 1 if before else 1,
    )
    others = tuple(known for known in state.failures if known is not before)
    changes = {"failures": (*others, failure)[-_MAX_COUNTED:], "latest_failed": True, "latest_answered": False}
    return state.model_copy(update=changes)


def _observe_answer(state: SelfCorrection, outcome: CallOutcome) -> SelfCorrection:
    if outcome.answer_signature is None:
        return state.model_copy(update={"latest_failed": False, "latest_answered": False})
    before = next((answer for answer in state.answers if answer.signature == outcome.answer_signature), None)
    count = before.count + 1 if before else 1
    answer = RepeatedAnswer(signature=outcome.answer_signature, tool=outcome.tool, count=count)
    others = tuple(known for known in state.answers if known is not before)
    changes = {"answers": (*others, answer)[-_MAX_COUNTED:], "latest_failed": False, "latest_answered": True}
    return state.model_copy(update=changes)


def verdict_on(state: SelfCorrection, earlier: EarlierFailures = _NONE) -> Verdict:
    """The verdict after the latest outcome in `state`: nothing, a reminder (once per kind), or a stop.

    `earlier` holds the failures from before `state` began to count. They can make a reminder due, but not a stop.
    """
    failure = state.latest
    if failure is None:
        return _verdict_on_answer(state.answers[-1]) if state.latest_answered else Verdict()
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


def _verdict_on_answer(answer: RepeatedAnswer) -> Verdict:
    if answer.count not in (REMIND_AFTER_ANSWERS, STOP_AFTER_ANSWERS):
        return Verdict()
    stops = answer.count == STOP_AFTER_ANSWERS
    text = (
        f"The same call of {answer.tool} has had the same answer {answer.count} times. Use the answer that you have. "
        "If you wait for something to change, tell the user how far it is instead of asking again."
    )
    return Verdict(
        action="stop" if stops else "reminder",
        repeats=True,
        tool=answer.tool,
        count=answer.count,
        reminder=None if stops else text,
    )


def _reminder(tool: str, count: int) -> str:
    return (
        f"{tool} has failed {count} times in the same way. Read the error: its message, hint and "
        "violations say what is wrong. Do not repeat the call as it was; change what the error names, or try another "
        "tool."
    )
