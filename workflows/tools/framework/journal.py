"""Steps of a tool's function, matched with the journal of earlier attempts.

The position of a step is the number of operations before it in its branch: the function itself, or an asyncio task
within it. Positions are the same in each attempt if the function begins its steps in the same order.
"""

import asyncio
import hashlib
import sys
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, cast

from pydantic import JsonValue
from pydantic_core import to_json

from outlast.activities.contracts import ErrorCategory
from outlast.activities.failures.classify import ToolFailure, redact
from outlast.activities.tool_secrets import ToolSecrets, hide_known
from outlast.workflows.contracts.steps import StepEntry, StepFailure, Wait

MAX_STEPS = 2_000
"""Most steps of a call. Each adds about four events to the task's history, which may have 51,200."""
MAX_STEP_BYTES = 1024 * 1024
"""Largest result of a step, as JSON."""
_MAX_MESSAGE_CHARS = 2_000
Record = Callable[[StepEntry], Awaitable[None]]
Digests = Callable[[str], tuple[str, ...]]
"""Keyed forms of a digest: the one to record, then the others that an earlier attempt may have recorded."""


def _as_it_is(digest: str) -> tuple[str, ...]:
    return (digest,)


class Suspended(BaseException):
    """Ends the function at a wait. The function runs again when the wait is over."""


class StepFailed(Exception):
    """A step failed in an earlier attempt with an exception that this process cannot make again."""


@dataclass(eq=False)
class Branch:
    """A sequence of operations: the function's own, or that of an asyncio task within it."""

    path: str = ""
    parent: "Branch | None" = None
    operations: int = 0
    children: int = 0
    is_suspended: bool = False

    def is_within(self, other: "Branch") -> bool:
        """Return whether this is `other`, or a branch that began in it."""
        return self is other or (self.parent is not None and self.parent.is_within(other))


@dataclass(frozen=True)
class Raised:
    """A failed step whose exception the function may have caught."""

    branch: Branch
    error: Exception
    entry: StepEntry


@dataclass(frozen=True)
class Operation:
    """A step or wait, with its place in the function."""

    branch: Branch
    position: str
    caught: tuple[Raised, ...] = ()
    """Steps that had failed in this branch before: the function caught their exceptions, since it continued."""


_branch: ContextVar[tuple["Journal", Branch, "asyncio.Task[Any] | None"] | None] = ContextVar("branch", default=None)
_in_step: ContextVar[bool] = ContextVar("in_step", default=False)


class Journal:
    """The journal of one attempt: entries of earlier attempts, and `record`, which makes a new entry durable.

    Without `record`, as in tests that call the function itself, steps run and nothing is recorded. Digests are recorded
    as `digests` writes them, because a plain one would let readers of a history guess short arguments.
    """

    def __init__(
        self,
        entries: Iterable[StepEntry] = (),
        record: Record | None = None,
        *,
        prefix: str = "",
        digests: Digests | None = None,
    ) -> None:
        self.waits: list[Wait] = []
        """What the function waits for. Not empty: the attempt ends, and the workflow waits."""
        self.continues_on_any = False
        """Whether the function runs again when one of its waits is over; otherwise when all are."""
        self._record = record
        self._digests: Digests = digests or _as_it_is
        self._begun: dict[str, StepEntry] = {}
        self._ended: dict[str, StepEntry] = {}
        for entry in entries:
            self._add(entry)
        self._root = Branch(prefix)
        self._raised: list[Raised] = []
        self._final: list[BaseException] = []
        self._running: set[asyncio.Task[JsonValue]] = set()
        self._is_closed = False

    @property
    def is_durable(self) -> bool:
        """True if entries are recorded."""
        return self._record is not None

    def begin(self, *, in_thread: bool = False) -> Operation:
        """Begin an operation: take its position. Raises `Suspended` in a branch that has reached a wait."""
        if _in_step.get():
            raise RuntimeError("A step began another step or wait: only the tool's function itself may do that.")
        branch = self._root if in_thread else self._current_branch()
        if self._is_closed or branch.is_suspended:
            raise Suspended
        branch.operations += 1
        caught = tuple(one for one in self._raised if one.branch.is_within(branch))
        self._raised = [one for one in self._raised if one not in caught]
        return Operation(branch, f"{branch.path}{branch.operations}", caught)

    def _current_branch(self) -> Branch:
        task, known = asyncio.current_task(), _branch.get()
        if known is None or known[0] is not self:
            branch = self._root
        elif known[2] is task:
            return known[1]
        else:
            parent = known[1]
            parent.children += 1
            branch = Branch(f"{parent.path}{parent.children}.", parent)
        _branch.set((self, branch, task))
        return branch

    def enter(self) -> None:
        """Make the current asyncio task the function's own branch."""
        _branch.set((self, self._root, asyncio.current_task()))

    async def finish_steps(self) -> None:
        """Begin no more steps, and wait for those that run: the function has ended at a wait."""
        self._is_closed = True
        await asyncio.gather(*self._running, return_exceptions=True)

    def cancel_steps(self) -> None:
        """Cancel steps that still run: the function has ended without them."""
        for task in self._running:
            task.cancel()

    async def recorded(self, operation: Operation, name: str, digest: str) -> StepEntry | None:
        """Return the entry of an earlier attempt. Failures that the function has caught are recorded first.

        Raises `ToolFailure` for the entry of another step, and for a step whose outcome is unknown.
        """
        for raised in operation.caught:
            await self._write(raised.entry)
            self._final.append(raised.error)
        ended = self._ended.get(operation.position)
        entry = ended or self._begun.get(operation.position)
        if entry is None:
            return None
        if entry.name != name or entry.digest not in (*self._digests(digest), digest):
            raise _changed(entry, name)
        if ended is None:
            raise _outcome_unknown(name)
        return ended

    def first_of(self, positions: Container[str]) -> StepEntry | None:
        """Return the entry that was recorded first at one of these positions; None if there is none."""
        return next((entry for position, entry in self._ended.items() if position in positions), None)

    async def run(
        self, operation: Operation, name: str, digest: str, function: Callable[[], Awaitable[JsonValue]], *, once: bool
    ) -> JsonValue:
        """Return the step's result: the recorded one, or that of `function`, which is recorded before it returns.

        Raises the exception of `function`, or that of the earlier attempt whose failure is recorded.
        """
        entry = await self.recorded(operation, name, digest)
        if entry is not None:
            return self._replayed(entry)
        # In a task of its own: asyncio.TaskGroup cancels the steps of other branches when one branch reaches a wait.
        task = asyncio.create_task(self._execute(operation, name, digest, function, once=once))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await asyncio.shield(task)

    async def _execute(
        self, operation: Operation, name: str, digest: str, function: Callable[[], Awaitable[JsonValue]], *, once: bool
    ) -> JsonValue:
        _in_step.set(True)
        begun = StepEntry(position=operation.position, name=name, digest=self._digests(digest)[0], state="started")
        if once:
            await self._write(begun)
        try:
            value = await function()
        except Exception as error:
            failed = begun.model_copy(update={"state": "failed", "failure": _failure_of(error)})
            if once:
                await self._write(failed)
                self._final.append(error)
            else:
                self._raised.append(Raised(operation.branch, error, failed))
            raise
        await self._write(begun.model_copy(update={"state": "done", "value": value}))
        return value

    def suspend(self, operation: Operation, wait: Wait) -> Suspended:
        """Add `wait` to the waits of the function, and return the exception that ends it."""
        self.waits.append(wait.model_copy(update={"digest": self._digests(wait.digest)[0]}))
        operation.branch.is_suspended = True
        return Suspended()

    def is_final(self, error: BaseException) -> bool:
        """Return whether a further attempt would raise `error` again, because its step is recorded as failed."""
        return any(error is one for one in self._final)

    def final(self, error: Exception) -> Exception:
        """Return `error`, which each further attempt would raise again."""
        self._final.append(error)
        return error

    def _replayed(self, entry: StepEntry) -> JsonValue:
        if entry.failure is None:
            return entry.value
        raise self.final(_exception_of(entry.failure))

    async def _write(self, entry: StepEntry) -> None:
        if len(self._ended) + len(self._begun) >= MAX_STEPS:
            raise ToolFailure.of(
                ErrorCategory.VALIDATION,
                f"The tool has more than {MAX_STEPS} steps.",
                hint="Report it to the tool's author: several operations can be one step.",
            )
        if self._record is not None:
            await self._record(entry)
        self._add(entry)

    def _add(self, entry: StepEntry) -> None:
        (self._begun if entry.state == "started" else self._ended).setdefault(entry.position, entry)


def name_of(function: Callable[..., Any]) -> str:
    """Return the name of a step's function, as the journal has it."""
    named = getattr(function, "func", function)
    return str(getattr(named, "__qualname__", type(named).__qualname__)).replace("<locals>.", "")[:100]


def digest_of(arguments: object, secrets: ToolSecrets | None = None) -> str:
    """Return the SHA-256 of arguments, in which secrets count with their names only.

    Values without a JSON form count with their types only.
    """
    written = to_json(_ordered(arguments), fallback=_type_name)
    if secrets is not None:
        written = secrets.hide(written.decode()).encode()
    return hashlib.sha256(written).hexdigest()


def _ordered(value: Any) -> Any:
    """`value` with sets as sorted lists: their order differs between processes."""
    if isinstance(value, set | frozenset):
        return sorted(to_json(_ordered(one), fallback=_type_name).decode() for one in cast(Iterable[Any], value))
    if isinstance(value, Mapping):
        return {str(key): _ordered(one) for key, one in cast(Mapping[Any, Any], value).items()}
    if isinstance(value, list | tuple):
        return [_ordered(one) for one in cast(Iterable[Any], value)]
    return value


def _type_name(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _failure_of(error: Exception) -> StepFailure:
    message = redact(hide_known(str(error)))[:_MAX_MESSAGE_CHARS]
    return StepFailure(module=type(error).__module__, name=hide_known(type(error).__qualname__), message=message)


def _exception_of(failure: StepFailure) -> Exception:
    """An exception of the recorded class and message, so that `except` clauses meet it again."""
    found: object = sys.modules.get(failure.module)
    for part in failure.name.split("."):
        found = getattr(found, part, None)
    if isinstance(found, type) and issubclass(found, Exception):
        with suppress(Exception):  # a class with a constructor of its own
            error = found.__new__(found)
            error.args = (failure.message,)
            return error
    return StepFailed(f"{failure.name}: {failure.message}")


def _changed(entry: StepEntry, name: str) -> ToolFailure:
    differs = (
        f"it was {entry.name!r} when an earlier attempt ran it, and is {name!r} now"
        if entry.name != name
        else "an earlier attempt ran it with other arguments"
    )
    return ToolFailure.of(
        ErrorCategory.CONFLICT,
        f"Step {entry.position}, {name}, does not match the journal of this call: {differs}. It was not run again.",
        hint="Report it to the tool's author. The code was changed while the call was running, or it depends on a "
        "value that differs between attempts, such as the time: obtain such a value in a step.",
    )


def _outcome_unknown(name: str) -> ToolFailure:
    return ToolFailure.of(
        ErrorCategory.OUTCOME_UNKNOWN,
        f"The step {name} had begun when its worker stopped, and whether it took effect is unknown. It was not run "
        "again, because it may run at most once.",
        hint="Check whether it took effect before you call again.",
    )
