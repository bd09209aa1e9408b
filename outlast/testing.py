"""Tests of one's own tools, without a server: `await call(weather, city="Prague")`, or a scripted `ToolTest`.

The function runs in the activity that a worker would run it in, with the same checks, retries and journal.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from enum import StrEnum
from typing import Any, cast

from pydantic import JsonValue
from pydantic_core import to_jsonable_python
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.failures.classify import ToolFailure
from outlast.activities.tool_secrets import ToolSecrets
from outlast.worker.plain_functions import PlainFunctions
from outlast.workflows.contracts.steps import CallOutcome, JournalPage, JournalState, StepEntry, Wait, WaitOutcome
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.contracts.written_json import as_json
from outlast.workflows.tools.framework.calls import MAX_DEPTH
from outlast.workflows.tools.framework.decorator import FunctionTool
from outlast.workflows.tools.framework.plain_functions import ApprovalInput, PlainFunctionInput
from outlast.workflows.tools.framework.results import as_result
from outlast.workflows.tools.framework.tool import Tool
from outlast.workflows.tools.framework.tool_context import CALLED, STUBS

__all__ = ["ToolTest", "Unanswered", "call"]

_MAX_ATTEMPTS = 1_000
_REFUSED = {"decline": ErrorCategory.PERMISSION, "timeout": ErrorCategory.TIMEOUT}
"""Categories of a call whose approval was not granted."""


class Unanswered(StrEnum):
    """How a question or an approval ends without an answer."""

    DECLINED = "decline"
    TIMEOUT = "timeout"


async def call(
    tool: FunctionTool[..., Any] | Tool, secrets: Mapping[str, str] | None = None, /, **arguments: Any
) -> ToolResult:
    """Call a tool and return its result; `is_error` and `error` tell a failure, as callers get it.

    `secrets` are the values of the secrets that it declares: `await call(pay, {"STRIPE_KEY": "test"}, amount=3)`.
    Raises `AssertionError` if the tool asks for something: script the answers with `ToolTest`.
    """
    return await ToolTest(secrets=secrets).call(tool, **arguments)


class ToolTest:
    """A call whose surroundings are scripted.

    `answers` and `approvals` are given in order: a value or `Unanswered`; for an approval True, False, or a text, which
    is the note of a refusal. `steps` replaces steps by the names of their functions: a list of outcomes, of which
    exceptions are raised, or one value for every run. `crash_after` names steps and called tools after whose record the
    worker dies, and `crash_in` steps that run and are not recorded, because it dies before; each dies once per name in
    the list.

    `calls` answers `ctx.call`, by the names of the tools: a value as the function under `@tool` returns it, a
    `ToolResult`, or a list of outcomes, of which exceptions are raised. A function that is not among them runs, with
    the rest of this script; a tool that is called by its name has to be.

    `secrets` are the values of the secrets that the tool declares, by their names.
    """

    def __init__(  # noqa: PLR0913 (each is a part of the script)
        self,
        *,
        answers: Iterable[Any] = (),
        approvals: Iterable[bool | str | Unanswered] = (),
        steps: Mapping[str, Any] | None = None,
        calls: Mapping[str, Any] | None = None,
        crash_after: Iterable[str] = (),
        crash_in: Iterable[str] = (),
        secrets: Mapping[str, str] | None = None,
        caller_id: str = "tester",
    ) -> None:
        self.ran: list[str] = []
        """Names of the steps that ran, in order, with repetitions."""
        self.called: list[tuple[str, dict[str, JsonValue]]] = []
        """Names of the tools that were called with `ctx.call`, and the arguments, in order."""
        self.asked: list[str] = []
        """Texts of the questions and approvals."""
        self.slept = timedelta(0)
        """Time of `ctx.sleep` together. It passes at once."""
        self.attempts = 0
        """How often the function was begun."""
        self._answers = list(answers)
        self._approvals = list(approvals)
        self._stubs = {name: _stub(name, outcomes) for name, outcomes in (steps or {}).items()}
        self._calls = {name: _stub(name, outcomes, "call") for name, outcomes in (calls or {}).items()}
        self._functions: dict[str, FunctionTool[..., Any]] = {}
        self._depth = 0
        self._crashes = {"after": list(crash_after), "in": list(crash_in)}
        self._secrets = dict(secrets or {})
        self._caller_id = caller_id
        self._journal = JournalState()

    async def call(self, tool: FunctionTool[..., Any] | Tool, /, **arguments: Any) -> ToolResult:
        """Call the tool until it has a result."""
        definition = tool if isinstance(tool, Tool) else tool.definition
        functions = dict(definition.functions)
        if not definition.is_function:
            raise TypeError(f"{definition.name} is not a function alone: call it on a stack, with `outlast_stack`.")
        if missing := [name for name in definition.secrets if name not in self._secrets]:
            script = dict.fromkeys(definition.secrets, "test-value")
            raise AssertionError(f"{definition.name} needs the secret {missing[0]}: ToolTest(secrets={script}).")
        activities = PlainFunctions(lambda _mode, _name, _admitted: definition, environment=self._secrets)
        given: dict[str, JsonValue] = as_json(arguments)
        try:
            refusal = await self._approval(definition, activities, given)
            return refusal or await self._result(definition, activities, given, functions["server"].attempts)
        except ApplicationError as error:
            envelope = ErrorEnvelope.model_validate(error.details[0])
            return ToolResult.failed(envelope.model_copy(update={"tool": definition.name}))
        finally:
            ToolSecrets(self._secrets).forget()

    async def _result(
        self, definition: Tool, activities: PlainFunctions, arguments: dict[str, JsonValue], attempts: int
    ) -> ToolResult:
        request = PlainFunctionInput(
            tool=definition.name, mode="default", step="server", arguments=arguments, caller_id=self._caller_id
        )
        attempt = 1
        token, called = STUBS.set(self._stubs), CALLED.set(cast(dict[str, Any], self._functions))
        try:
            for _ in range(_MAX_ATTEMPTS):
                self.attempts += 1
                try:
                    result = await self._environment(attempt).run(activities.run_plain_function, request)
                except _Crash:
                    attempt += 1
                except ApplicationError as error:
                    if error.non_retryable or attempt >= attempts:
                        raise
                    attempt += 1
                else:
                    if not result.waits:
                        return result.result
                    attempt = 1
                    for wait in result.waits:
                        try:
                            await self._end(wait)
                        except _Crash:
                            attempt = 2
                    request = request.model_copy(update={"resumed": True})
        finally:
            STUBS.reset(token)
            CALLED.reset(called)
        raise AssertionError(f"{definition.name} has no result after {_MAX_ATTEMPTS} attempts.")

    async def _approval(
        self, definition: Tool, activities: PlainFunctions, arguments: dict[str, JsonValue]
    ) -> ToolResult | None:
        """The refusal of the tool's own approval, if it needs one and does not get it."""
        request = ApprovalInput(tool=definition.name, mode="default", arguments=arguments)
        decision = await self._environment(1).run(activities.decide_approval, request)
        if not decision.is_due:
            return None
        verdict = self._verdict(decision.message or f"Allow {definition.name}?")
        if verdict.action == "accept":
            return None
        return ToolResult.failed(
            ErrorEnvelope.permanent(
                _REFUSED[verdict.action], definition.name, f"The call of {definition.name} was not approved."
            )
        )

    def _environment(self, attempt: int) -> ActivityEnvironment:
        environment = ActivityEnvironment(client=_Temporal(self))
        environment.info = replace(environment.info, attempt=attempt, workflow_id="task-under-test")
        return environment

    async def _end(self, wait: Wait) -> None:
        value = None
        if wait.kind == "sleep":
            self.slept += timedelta(seconds=wait.seconds or 0)
        elif wait.kind == "call":
            outcome = CallOutcome(task_id=f"call-{wait.position}", result=await self._called(wait))
            value = outcome.model_dump(mode="json", exclude_none=True)
        else:
            outcome = self._verdict(wait.message) if wait.kind == "approve" else self._answer(wait)
            value = outcome.model_dump(mode="json", exclude_none=True)
        self._journal.record(StepEntry(position=wait.position, name=wait.kind, digest=wait.digest, value=value))
        if wait.kind == "call":
            self._crash_if("after", wait.tool or "")

    async def _called(self, wait: Wait) -> ToolResult:
        """The answer of a tool that the function calls: that of the script, or of its function."""
        name = wait.tool or ""
        function, stub = self._functions.get(name), self._calls.get(name)
        self.called.append((name, wait.details))
        if stub is None and function is None:
            raise AssertionError(
                f"The tool calls {name!r}, and calls has no answer: ToolTest(calls={{{name!r}: ...}})."
            )
        if stub is None and self._depth >= MAX_DEPTH:
            raise AssertionError(f"The tool calls {name!r}: at most {MAX_DEPTH} calls may be within each other.")
        if stub is None:
            return await self._nested(cast("FunctionTool[..., Any]", function), wait.details)
        try:
            value = stub()
        except ToolFailure as error:
            return ToolResult.failed(error.envelope)
        if isinstance(value, ToolResult):
            return value
        return as_result(value) if function is None else function.written(value)

    async def _nested(self, function: FunctionTool[..., Any], arguments: dict[str, JsonValue]) -> ToolResult:
        """Run a function that is called, as a call with its own journal, by the same script."""
        outer = self._journal
        self._journal, self._depth = JournalState(), self._depth + 1
        try:
            return await self.call(function, **arguments)
        finally:
            self._journal, self._depth = outer, self._depth - 1

    def _answer(self, wait: Wait) -> WaitOutcome:
        answer = self._next(self._answers, wait.message, "answers")
        if isinstance(answer, Unanswered):
            return WaitOutcome(action=answer.value, by=self._caller_id)
        content: Any = to_jsonable_python(answer)
        if not isinstance(content, dict):
            content = {"answer": content}
        return WaitOutcome(action="accept", content=cast(dict[str, JsonValue], content), by=self._caller_id)

    def _verdict(self, question: str) -> WaitOutcome:
        approval = self._next(self._approvals, question, "approvals")
        if isinstance(approval, Unanswered):
            return WaitOutcome(action=approval.value)
        note = approval if isinstance(approval, str) else None
        return WaitOutcome(action="accept" if approval is True else "decline", by=self._caller_id, note=note)

    def _next(self, script: list[Any], question: str, name: str) -> Any:
        self.asked.append(question)
        if not script:
            raise AssertionError(f"The tool asks {question!r}, and {name} has nothing more: ToolTest({name}=[...]).")
        return script.pop(0)

    def record(self, entry: StepEntry) -> None:
        """Record a step, unless the worker dies before; raise `_Crash` where it dies."""
        name = entry.name.rpartition(".")[2]
        if entry.state != "started":
            self.ran.append(name)
            self._crash_if("in", name)
        self._journal.record(entry)
        if entry.state != "started":
            self._crash_if("after", name)

    def _crash_if(self, when: str, name: str) -> None:
        with suppress(ValueError):
            self._crashes[when].remove(name)
            raise _Crash

    def page(self, start: int) -> JournalPage:
        """Entries of the journal."""
        return self._journal.page(start)


class _Crash(BaseException):
    """The worker dies here."""


class _Temporal(Client):
    """The workflow of the task, as far as the activity uses it."""

    def __init__(self, test: ToolTest) -> None:
        self._test = test

    def get_workflow_handle(self, *_: Any, **__: Any) -> Any:
        return self

    async def signal(self, _name: str, entry: StepEntry) -> None:
        self._test.record(StepEntry.model_validate_json(entry.model_dump_json()))

    async def query(self, _name: str, start: int, **_: Any) -> JournalPage:
        return self._test.page(start)


def _stub(name: str, outcomes: Any, kind: str = "step") -> Callable[[], Any]:
    """The replacement of a step or a call."""
    is_script = isinstance(outcomes, list)
    script = cast(list[Any], outcomes)

    def next_outcome() -> Any:
        if not is_script:
            return outcomes
        if not script:
            raise AssertionError(f"The {kind} {name} runs again, and its list of outcomes is empty.")
        outcome = script.pop(0)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    return next_outcome
