"""The activity behind every plain function of a tool."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

from pydantic import BaseModel
from pydantic_core import to_json
from temporalio import activity
from temporalio.common import MetricMeter
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from outlast.activities.contracts import LOCAL_CALLER_ID, ErrorCategory, ErrorEnvelope
from outlast.activities.failures.classify import RETRYABLE, ToolFailure, as_activity_failure, classify
from outlast.activities.heartbeat import Heartbeats, heartbeating
from outlast.activities.json_values import MAX_VALUES, has_more_values
from outlast.activities.stuck_tasks.contracts import TOOL_CHANGED
from outlast.activities.tool_secrets import LEAST_HIDDEN_CHARS, MissingSecret, ToolSecrets, hide_known, is_hidden
from outlast.worker.functions_loop import FunctionsLoop
from outlast.worker.inner_calls import InnerSecrets, decided, may_see, unknown_inner_tool
from outlast.worker.server_listings import ListedTools
from outlast.workflows.contracts.steps import JOURNAL_QUERY, STEP_SIGNAL, JournalPage, StepEntry, Wait
from outlast.workflows.contracts.tool_calls import AdmittedTool, Progress, TextContent, ToolResult
from outlast.workflows.contracts.written_json import UnusableAnswer
from outlast.workflows.handler_api.failures import ToolError, defect
from outlast.workflows.programs.stubs import python_name
from outlast.workflows.tools.framework.calls import ADMIT_INNER_CALL, INNER_MODE, InnerAdmission, InnerCallInput
from outlast.workflows.tools.framework.changes import ToolChanged
from outlast.workflows.tools.framework.journal import Journal, Suspended
from outlast.workflows.tools.framework.phases import PlainFunction, Reply
from outlast.workflows.tools.framework.plain_functions import (
    DECIDE_APPROVAL,
    RUN_PLAIN_FUNCTION,
    ApprovalDecision,
    ApprovalInput,
    PlainFunctionInput,
    PlainFunctionResult,
)
from outlast.workflows.tools.framework.results import as_result
from outlast.workflows.tools.framework.threads import in_thread
from outlast.workflows.tools.framework.tool import Tool
from outlast.workflows.tools.framework.tool_context import CallFailed, Toolbox, ToolContext
from outlast.workflows.tools.registry import MODES, UnknownTool, tools_of, version_of_tool

_logger = logging.getLogger("outlast.worker")
ToolOf = Callable[[str, str, AdmittedTool | None], Tool]
MAX_ANSWER_BYTES = 16 * 1024 * 1024
"""A workflow decodes the answer before it is stored."""


_WAITS = ToolResult(content=())
_OUTAGE = (RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.RESOURCE_EXHAUSTED)
_TEMPORARY_STATUSES = frozenset({408, 425, 429})
"""Client errors that may pass: time-out, too early, too many requests (RFC 9110, RFC 8470, RFC 6585)."""


class PlainFunctions:
    """Runs plain functions by the names of their tools, with heartbeats. They are cancelled with their calls."""

    def __init__(
        self,
        tool_of: ToolOf | None = None,
        *,
        loop: FunctionsLoop | None = None,
        environment: Mapping[str, str] | None = None,
        inner_secrets: InnerSecrets | None = None,
        listed_tools: ListedTools | None = None,
    ) -> None:
        """`tool_of` returns a tool by mode, name, and what the call recorded of it; by default of this process. It
        raises `UnknownTool` or `ToolChanged`.

        `loop` runs `async def` functions; None for the loop of the worker, as tests do. `environment` has the secrets;
        None for that of this process. `inner_secrets` encrypts arguments of calls that functions make, and keys the
        digests of a journal; None in tests without a server. `listed_tools` are those of MCP servers; None without a
        file of servers.
        """
        self._tool_of = tool_of or version_of_tool
        self._loop = loop
        self._environment = environment
        self._inner_secrets = inner_secrets
        self._listed_tools = listed_tools

    @activity.defn(name=DECIDE_APPROVAL)
    async def decide_approval(self, request: ApprovalInput) -> ApprovalDecision:
        """Return whether a call needs its tool's approval. Fails with an `ErrorEnvelope`."""
        with as_activity_failure():
            definition, arguments = self._tool_and_arguments(request)
            secrets = self._secrets(definition)
            approval = definition.approval
            try:
                if approval is None or not await in_thread(request.tool, partial(approval.is_due, arguments)):
                    return ApprovalDecision(is_due=False)
                message = await in_thread(request.tool, partial(approval.message_for, arguments))
            except Exception as error:  # noqa: BLE001 (a defect of the tool)
                raise _logged_defect(request, error) from None
            shown = secrets.hide_in(message)
            return ApprovalDecision(is_due=True, message=shown, seconds=approval.deadline.total_seconds())

    @activity.defn(name=ADMIT_INNER_CALL)
    async def admit_inner_call(self, request: InnerCallInput) -> InnerAdmission:
        """Decide whether a function may call another tool, and with which arguments."""
        definition, secrets = self._inner_tool(request.tool), self._inner_secrets
        with as_activity_failure():
            if definition is None:
                listed = {} if self._listed_tools is None else await self._listed_tools.around(request.tool)
                definition = listed.get(request.tool)
                if definition is None:
                    return InnerAdmission(refusal=unknown_inner_tool(request, listed.values()))
            request = secrets.opened(request) if secrets is not None else request
            admission = await in_thread(request.tool, partial(decided, request, definition))
            return await secrets.sealed(request, definition, admission) if secrets is not None else admission

    @activity.defn(name=RUN_PLAIN_FUNCTION)
    async def run_plain_function(self, request: PlainFunctionInput) -> PlainFunctionResult:
        """Run the function. Fails with an `ErrorEnvelope`; a defect is also logged.

        A function that has answered is not run again, whatever becomes of its answer.
        """
        with as_activity_failure():
            definition, given = self._tool_and_arguments(request)
            secrets = self._secrets(definition)
            with _hidden_in_failures(secrets):
                function, arguments = _function_and_arguments(definition, given, request)
                return await self._run(request, function, arguments, secrets)

    async def _run(
        self, request: PlainFunctionInput, function: PlainFunction, arguments: tuple[Any, ...], secrets: ToolSecrets
    ) -> PlainFunctionResult:
        async with heartbeating() as heartbeats:
            journal = await self._journal(request) if function.takes_context else Journal()
            context: dict[str, Any] = {}
            if function.takes_context:
                context["context"] = _context(request, heartbeats, journal, secrets, partial(self._toolbox, request))
            try:
                running = _until_wait(function(*arguments, **context), journal)
                if self._loop is None or function.has_thread:
                    value = await running
                else:
                    value = await self._loop.run(running, request.tool, heartbeats.send)
            except (Exception, asyncio.CancelledError, SystemExit, KeyboardInterrupt) as error:
                failure = _failure(request, function, journal, error)
                if failure is error:
                    raise
                raise failure from error.__cause__
            if journal.waits:
                waits = tuple(self._as_recorded(wait, request.caller_id) for wait in journal.waits)
                return PlainFunctionResult(result=_WAITS, waits=waits, continues_on_any=journal.continues_on_any)
            try:
                return _answered(request, value, secrets)
            except (ToolFailure, asyncio.CancelledError):
                raise
            except Exception as error:  # noqa: BLE001 (whatever it is, the function was run)
                raise _logged_defect(request, error) from None

    async def _toolbox(self, request: PlainFunctionInput, words: frozenset[str]) -> Sequence[Tool]:
        """The tools whose functions in a program are among these words, and that it may call. Raises `ToolFailure`."""
        rules = request.program
        if rules is None:
            return ()
        found = [tool for tool in tools_of(INNER_MODE) if python_name(tool.name) in words]
        if self._listed_tools is not None:
            listed = await self._listed_tools.of_words(words)
            found += [tool for tool in listed if python_name(tool.name) in words]
        return [tool for tool in found if may_see(rules, tool)]

    async def _journal(self, request: PlainFunctionInput) -> Journal:
        """The journal of the task, with the entries of earlier attempts."""
        info = activity.info()
        task = activity.client().get_workflow_handle(info.workflow_id or "", run_id=info.workflow_run_id)
        loop = asyncio.get_running_loop()

        async def record(entry: StepEntry) -> None:
            """Record from the loop of the function; the client belongs to the worker's."""
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(send(entry), loop))

        async def send(entry: StepEntry) -> None:
            """Return when the task's history has the signal. An outage is waited out while the attempt lasts."""
            pause = 0.1
            while True:
                try:
                    return await task.signal(STEP_SIGNAL, entry)
                except RPCError as error:
                    if error.status not in _OUTAGE:
                        raise
                await asyncio.sleep(pause)
                pause = min(2 * pause, 5)

        entries: list[StepEntry] = []
        start = 0 if request.resumed or info.attempt > 1 else None
        while start is not None:
            page = await task.query(JOURNAL_QUERY, start, result_type=JournalPage)
            entries += page.entries
            start = page.next
        digests = self._inner_secrets.digests if self._inner_secrets is not None else None
        prefix = "" if request.step == "server" else f"{request.step}:"
        return Journal(entries, record, prefix=prefix, digests=digests)

    def _as_recorded(self, wait: Wait, caller_id: str) -> Wait:
        if self._inner_secrets is None or wait.tool is None:
            return wait
        definition = self._inner_tool(wait.tool)
        if definition is None and self._listed_tools is not None and self._listed_tools.is_one(wait.tool):
            return wait  # As in a call from outside: a server's schema does not say which of its arguments are secret.
        return self._inner_secrets.hidden(wait, definition, caller_id)

    def _inner_tool(self, name: str) -> Tool | None:
        try:
            return self._tool_of(INNER_MODE, name, None)
        except UnknownTool:
            return None

    def _secrets(self, definition: Tool) -> ToolSecrets:
        """The values of the tool's secrets. Raises `ToolFailure`, which names only the missing one."""
        try:
            return ToolSecrets.read(definition.secrets, self._environment)
        except MissingSecret as error:
            activity.logger.error("a tool lacks its secret: %s", error, extra={"tool": definition.name})
            raise ToolFailure.of(
                ErrorCategory.AUTHENTICATION,
                f"{definition.name} needs the secret {error.name}, which its worker does not have. It was not run.",
                hint=f"Ask the operators to set {error.name} in the worker's environment, and to restart the worker.",
            ) from None

    def _tool_and_arguments(self, request: PlainFunctionInput | ApprovalInput) -> tuple[Tool, Any]:
        try:
            definition = self._tool_of(request.mode, request.tool, request.admitted_tool)
            return definition, definition.parse(request.arguments)
        except ToolChanged as error:
            raise ApplicationError(str(error), type=TOOL_CHANGED, non_retryable=True) from None
        except (UnknownTool, ToolError) as error:
            raise ToolFailure(error.envelope) from None


def _failure(
    request: PlainFunctionInput, function: PlainFunction, journal: Journal, error: BaseException
) -> BaseException:
    """Return what the activity fails with, for an exception of the function. `sys.exit()` would end the worker."""
    if isinstance(error, ToolError):
        return ToolFailure(error.envelope)
    if isinstance(error, UnusableAnswer):  # of a `ToolResult` that the function has made
        return ToolFailure(error.envelope(request.tool))
    if isinstance(error, ToolFailure):
        changes = {"retryable": False} if journal.is_final(error) else {}
        if isinstance(error, CallFailed):  # Violations and tools are those of the other tool; the message names them.
            changes = {**changes, "violations": None, "allowed_tools": None}
        return ToolFailure(error.envelope.model_copy(update=changes)) if changes else error
    if _is_cancellation(error):
        return error
    if isinstance(error, function.no_retry_on) or journal.is_final(error):
        return _logged_defect(request, error)
    return _logged_failure(request, function, error)


def _logged_failure(request: PlainFunctionInput, function: PlainFunction, error: BaseException) -> ToolFailure:
    if isinstance(error, function.retry_on):
        return _logged_temporary(request, error, retryable=True)
    if _is_of_its_surroundings(error):
        return _logged_temporary(request, error, retryable=_category_of(error) in RETRYABLE)
    return _logged_defect(request, error)


def _is_cancellation(error: BaseException) -> bool:
    """Whether somebody has cancelled the function: the caller, or the worker that ends."""
    if not isinstance(error, asyncio.CancelledError):
        return False
    task = asyncio.current_task()
    return activity.is_cancelled() or activity.is_worker_shutdown() or (task is not None and task.cancelling() > 0)


def _is_of_its_surroundings(error: BaseException) -> bool:
    """Whether the function failed because of a network, a file or the platform, and not because of what it does.

    A value that it could not read or write (`ValueError`, also that of a parser or of pydantic) is its own affair.
    """
    if isinstance(error, ValueError | asyncio.CancelledError):
        return False
    status = _http_status(error)
    if status is not None:
        return status in _TEMPORARY_STATUSES or status >= 500
    return _category_of(error) in (*RETRYABLE, ErrorCategory.FILESYSTEM, ErrorCategory.PERMISSION)


def _category_of(error: BaseException) -> ErrorCategory:
    """The category of an exception. Libraries such as requests derive errors of the network from `OSError`."""
    status = _http_status(error)
    if status is not None and (status in _TEMPORARY_STATUSES or status >= 500):
        return ErrorCategory.RATE_LIMIT if status == 429 else ErrorCategory.NETWORK
    category = classify(error).category
    is_of_library = type(error).__module__ != OSError.__module__
    return ErrorCategory.NETWORK if category is ErrorCategory.FILESYSTEM and is_of_library else category


def _http_status(error: BaseException) -> int | None:
    """The status of the HTTP response that `error` is about, as httpx, requests and aiohttp have it; None without."""
    status = getattr(getattr(error, "response", None), "status_code", None) or getattr(error, "status", None)
    return status if isinstance(status, int) else None


@contextmanager
def _hidden_in_failures(secrets: ToolSecrets) -> Generator[None]:
    """Hide the secrets in all texts of a `ToolFailure`."""
    try:
        yield
    except ToolFailure as error:
        shown = secrets.hide_in(error.envelope.model_dump(mode="json"))
        raise ToolFailure(ErrorEnvelope.model_validate(shown)) from error.__cause__


def report_missing_secrets(meter: MetricMeter) -> None:
    """Log the secrets of loaded tools that this process lacks, or cannot hide, and show the missing ones in metrics."""
    gauge = meter.create_gauge("outlast_missing_tool_secrets", "1 for each secret of a tool that the worker lacks.")
    needed = {(one.name, secret) for mode in MODES for one in tools_of(mode) for secret in one.secrets}
    for tool, name in sorted(needed):
        try:
            value = ToolSecrets.read([name]).value(name).get_secret_value()
        except MissingSecret as error:
            gauge.set(1, {"tool": tool, "secret": name})
            _logger.error("Calls of %s will fail, because it needs the secret %s. %s", tool, name, error)  # noqa: TRY400
        else:
            if not is_hidden(value):
                _logger.warning(
                    "The value of the secret %s of %s has fewer than %d characters, and is not hidden in texts.",
                    name, tool, LEAST_HIDDEN_CHARS,
                )  # fmt: skip


def _answered(request: PlainFunctionInput, value: object, secrets: ToolSecrets) -> PlainFunctionResult:
    """The function's answer. Raises `ToolFailure` for one that no workflow can decode in its time."""
    _check_values(request, value)
    try:
        result = as_result(value)
    except UnusableAnswer as error:
        raise ToolFailure(error.envelope(request.tool)) from None
    _check_values(request, result)
    size = _size(result)
    if size > MAX_ANSWER_BYTES:
        raise _too_large(request, f"{size} bytes; the limit is {MAX_ANSWER_BYTES}")
    is_object = isinstance(value, dict | BaseModel) and not isinstance(value, ToolResult)
    if secrets:
        if result.structured is not None and not isinstance(value, ToolResult):
            result = as_result(secrets.hide_in(result.structured))  # the text repeats it with further escapes
        result = ToolResult.model_validate(secrets.hide_in(result.model_dump(mode="json")))
    return PlainFunctionResult(result=result, is_object=is_object)


def _size(result: ToolResult) -> int:
    """Bytes of an answer: of its structured form or of its content, whichever has more, since one repeats the other.

    Texts count as they are, without the escapes that they need within JSON.
    """
    texts = sum(len(block.text.encode()) for block in result.content if isinstance(block, TextContent))
    others = tuple(block for block in result.content if not isinstance(block, TextContent))
    rest = result.model_copy(update={"content": others, "structured": None})
    return max(texts + len(rest.model_dump_json()), len(to_json(result.structured)))


def _logged_defect(request: PlainFunctionInput | ApprovalInput, error: BaseException) -> ToolFailure:
    activity.logger.error("a plain function has a defect", exc_info=error, extra=_call(request))
    return ToolFailure(_defect(request, error))


def _logged_temporary(request: PlainFunctionInput, error: BaseException, *, retryable: bool) -> ToolFailure:
    activity.logger.warning("a plain function has failed", exc_info=error, extra=_call(request))
    return ToolFailure(_temporary(request, error, retryable=retryable))


def _call(request: PlainFunctionInput | ApprovalInput) -> dict[str, str | None]:
    """Fields of a line of the log."""
    session = {"session": request.session_id} if isinstance(request, PlainFunctionInput) else {}
    return {"tool": request.tool, "caller": request.caller_id, **session}


async def _until_wait(running: Coroutine[Any, Any, Any], journal: Journal) -> Any:
    """Return what the function returns; None if it has reached a wait, whatever it makes of `Suspended`."""
    journal.enter()
    try:
        value = await running
    except BaseException as error:
        if not journal.waits or not _stems_from_wait(error):
            journal.cancel_steps()
            raise
        value = None
    if journal.waits:
        await journal.finish_steps()
        return None
    journal.cancel_steps()
    return value


def _stems_from_wait(error: BaseException) -> bool:
    """Whether the function ended because it waits: with `Suspended`, or with an error that it made of it."""
    if isinstance(error, Suspended):
        return True
    if isinstance(error, asyncio.CancelledError):
        return False
    if isinstance(error, BaseExceptionGroup):
        return any(_stems_from_wait(one) for one in cast("BaseExceptionGroup[BaseException]", error).exceptions)
    before = error.__cause__ or error.__context__
    return before is not None and _stems_from_wait(before)


def _context(
    request: PlainFunctionInput, heartbeats: Heartbeats, journal: Journal, secrets: ToolSecrets, toolbox: Toolbox
) -> ToolContext:
    info = activity.info()
    loop = asyncio.get_running_loop()

    def report(progress: Progress) -> None:
        loop.call_soon_threadsafe(heartbeats.send, progress)

    async def tools_of_words(words: frozenset[str]) -> Sequence[Tool]:
        """Look up from the loop of the function; the client belongs to the worker's."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(toolbox(words), loop))

    return ToolContext(
        task_id=info.workflow_id or "",
        caller_id=request.caller_id,
        session_id=request.session_id,
        attempt=info.attempt,
        report=report,
        journal=journal,
        secrets=secrets,
        toolbox=tools_of_words,
    )


def _function_and_arguments(
    definition: Tool, arguments: Any, request: PlainFunctionInput
) -> tuple[PlainFunction, tuple[Any, ...]]:
    """The function and all its arguments."""
    function = dict(definition.functions).get(request.step)
    if function is None:
        raise ToolFailure(_missing_function(request))
    more = (request.decided, _reply(definition, request))
    return function, (arguments, *(one for one in more if one is not None))


def _reply(definition: Tool, request: PlainFunctionInput) -> Reply[Any] | None:
    if request.reply is None or definition.client is None:
        return None
    answer = definition.client.parse(request.reply.content)
    return Reply(answer, request.reply.parameters, request.reply.answered_by)


def _missing_function(request: PlainFunctionInput) -> ErrorEnvelope:
    return ErrorEnvelope.permanent(
        ErrorCategory.CONFLICT,
        request.tool,
        f"{request.tool} has no plain function for its step {request.step!r} in this worker's version of it.",
        hint="Call again: the tool was changed while this call was running.",
    )


def _check_values(request: PlainFunctionInput, answer: object) -> None:
    """Raise `ToolFailure` before time is spent on an answer of too many values."""
    content = answer.structured if isinstance(answer, ToolResult) else answer
    if has_more_values(content):
        raise _too_large(request, f"more than {MAX_VALUES} values")


def _too_large(request: PlainFunctionInput, size: str) -> ToolFailure:
    return ToolFailure(
        ErrorEnvelope.permanent(
            ErrorCategory.UNKNOWN,
            request.tool,
            f"The tool's answer has {size}.",
            hint="Report it to the tool's author: it has to write large data to a dataset or a key-value store, and "
            "answer with its id.",
        )
    )


def _temporary(request: PlainFunctionInput, error: BaseException, *, retryable: bool) -> ErrorEnvelope:
    """The error of an exception that another attempt may solve, or that is about files."""
    category = _category_of(error)
    envelope = _defect(request, error)
    if request.caller_id != LOCAL_CALLER_ID:
        envelope = envelope.model_copy(update={"message": f"The tool failed: an error of the category {category}."})
    elif category in RETRYABLE:
        envelope = envelope.model_copy(update={"hint": "Check what the tool reaches over the network, and call again."})
    update = {"category": category, "retryable": retryable, "attempt": activity.info().attempt}
    return envelope.model_copy(update=update)


def _defect(request: PlainFunctionInput | ApprovalInput, error: BaseException) -> ErrorEnvelope:
    task_id = activity.info().workflow_id or ""
    return defect(error, tool=request.tool, task_id=task_id, caller_id=request.caller_id, hide=hide_known)
