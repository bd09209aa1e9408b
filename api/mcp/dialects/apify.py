"""Dialect of the Apify MCP server (0.16): its clients match error codes and the beginnings of messages.

That server reads any address of the platform API. This one reads only those that its tools read: several callers may
share an account, and `/v2/users/me` has its proxy password, `/v2/acts/...` the source and variables of Actors.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from mcp.server.apps import APP_MIME_TYPE
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS
from pydantic import JsonValue

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope, JsonObject, Violation
from outlast.activities.storages.datasets import simplified_schema
from outlast.api.errors import InvalidCall, TaskNotFound, UnfitInput, UnpaidCall
from outlast.api.mcp.dialects.apify_arguments import coerced_object, first_violation, quick_first_violation
from outlast.api.mcp.dialects.dialect import Dialect
from outlast.api.mcp.protocol.request_meta import ProgressFacts, ProgressNote
from outlast.api.mcp.resource_definitions import PlatformAddress, Resource
from outlast.api.mcp.widgets import Surface, widget_page
from outlast.api.tasks.arguments import WAIT_ARGUMENT
from outlast.contracts.tasks import Task
from outlast.workflows.contracts.tool_calls import TaskStatus, TextContent, ToolResult
from outlast.workflows.tools.apify import widgets
from outlast.workflows.tools.apify.answers import USAGE_META, compact, demand_for_payment, is_thrown
from outlast.workflows.tools.apify.call_actor import shown_schema
from outlast.workflows.tools.apify.call_actor import tool_name as actor_tool_name
from outlast.workflows.tools.apify.docs import naming_reports
from outlast.workflows.tools.apify.runs import GET_ACTOR_RUN
from outlast.workflows.tools.apify.selection import REPORT
from outlast.workflows.tools.core.payments import PAY_ID
from outlast.workflows.tools.framework.frozen_json import FrozenObject
from outlast.workflows.tools.framework.tool import TaskUse, Tool
from outlast.workflows.tools.registry import ToolSet

_GUIDE = f"""# Paying per call

Calls on this connection are paid with Skyfire; no Apify account is charged.

1. Make a PAY token with `create-pay-token` of Skyfire's MCP server.
2. Pass the token itself (it begins with `ey`) as `{PAY_ID}` to each tool that has this argument.
3. Read what a run has written with the token that paid for the run.

A call without a token starts nothing, and answers with what is missing.
"""
_FACTS = FrozenObject(
    {
        # The second is there where the first was not selected.
        "runTools": ["get-actor-run", "get-actor-run-widget"],
        "runArguments": {"waitSecs": 0},
        "logTool": "get-actor-run-log",
        "logLines": 50,
        "readsLogUnasked": False,
        "showsStorages": True,
        "firstMs": 3_000,
        "searchTool": "search-actors-widget",
        "detailsTool": "fetch-actor-details-widget",
        "schemaTool": "fetch-actor-details",
    }
)
_JSON = "application/json"
_BOUND = "Content that is too large for one answer is replaced by a note with its address."
_STORE, _RECORD = "get-key-value-store", "get-key-value-store-record"
ADDRESSES = (
    PlatformAddress(
        ("datasets", "{datasetId}", "items"),
        "get-dataset-items",
        "dataset-items",
        "{?limit,offset,clean,fields,format}",
        f"Rows of a dataset, as JSON unless format says otherwise; a page by limit and offset. {_BOUND}",
    ),
    PlatformAddress(
        ("key-value-stores", "{storeId}", "records", "{recordKey}"),
        _RECORD,
        "key-value-store-record",
        description=f"One record in its own content type. {_BOUND}",
    ),
    PlatformAddress(
        ("key-value-stores", "{storeId}", "keys"),
        "get-key-value-store-keys",
        "key-value-store-keys",
        "{?limit,exclusiveStartKey}",
        "Keys of a key-value store; the next page begins after exclusiveStartKey.",
        _JSON,
    ),
    PlatformAddress(
        ("actor-runs", "{runId}"),
        "get-actor-run",
        "actor-run",
        description="A run: its status, its storages, its usage.",
        mime_type=_JSON,
        is_object=True,
    ),
    PlatformAddress(
        ("logs", "{runId}"),
        "get-actor-run-log",
        "actor-run-log",
        description=f"The log of a run. {_BOUND}",
        mime_type="text/plain",
    ),
    PlatformAddress(("datasets", "{datasetId}"), "get-dataset", is_object=True),
    PlatformAddress(("key-value-stores", "{storeId}"), _STORE, is_object=True),
    PlatformAddress(("actor-runs", "{runId}", "log"), "get-actor-run-log"),
    PlatformAddress(("actor-runs", "{runId}", "dataset"), "get-dataset", is_object=True),
    PlatformAddress(("actor-runs", "{runId}", "dataset", "items"), "get-dataset-items"),
    PlatformAddress(("actor-runs", "{runId}", "key-value-store"), _STORE, is_object=True),
    PlatformAddress(("actor-runs", "{runId}", "key-value-store", "records", "{recordKey}"), _RECORD),
)
_MAX_URI_CHARS = 200
_MAX_SCHEMA_BYTES = 32_768
"""Of an Actor's input schema in a refusal; the deepest parts of a larger one are left out."""
_NO_TASK = {"type": TaskNotFound.slug}
_REPORTED_EVENTS = frozenset({"run_started", "run_resurrected", "status_message", "run_finished"})
"""Events of a task that are reported to its client once a run is known."""
_SEE_SCHEMA = "Compare them with the tool's inputSchema in tools/list."


PAYMENT_GUIDES = (
    Resource(
        "file://readme.md",
        "readme",
        "Paying per call",
        "How calls on this connection are paid.",
        "text/markdown",
        lambda _: _GUIDE,
        mode="apify",
        payment="skyfire",
    ),
)


def _resource(page: widgets.Page, file_name: str, name: str, description: str) -> Resource:
    surface = Surface(_FACTS, page.picture_hosts)
    return Resource(
        uri=page.uri,
        name=name,
        title="",
        description=description,
        mime_type=APP_MIME_TYPE,
        read=lambda _: widget_page(file_name, surface),
        meta=page.meta(),
        mode="apify",
        is_app=True,
    )


PAGES = (
    _resource(
        widgets.ACTORS_PAGE,
        "search-results.html",
        "search-actors-widget",
        "Actors of Apify Store as cards: what each does, its price, its use, its documentation.",
    ),
    _resource(
        widgets.RUN_PAGE,
        "actor-run.html",
        "actor-run-widget",
        "A live run: status, progress, cost, rows so far, storages, and a button to abort it.",
    ),
)


class ApifyDialect(Dialect):
    """Protocol errors where that server has protocol errors; tasks for the tools that run an Actor."""

    state_tool = GET_ACTOR_RUN.name
    addresses = ADDRESSES
    resources = (*PAYMENT_GUIDES, *PAGES)
    signs_links = True

    def unknown_resource(self, uri: str, *, is_modern: bool) -> MCPError:
        """Use the code for invalid parameters in both protocol versions."""
        del is_modern
        return MCPError(INVALID_PARAMS, f"Failed to read {uri}: not a readable resource.", data={"uri": uri})

    def absent_page(self, uri: str) -> str | None:
        """Return a text for every address below that of the pages."""
        if not uri.startswith(widgets.FOLDER):
            return None
        known = f"{widgets.ACTORS_PAGE.uri} and {widgets.RUN_PAGE.uri}"
        return f"Widget {uri[:_MAX_URI_CHARS]} is not available. There are {known}."

    def unknown_prompt(self, name: str, known: Sequence[str]) -> MCPError:
        """Names the prompts that there are."""
        return MCPError(INVALID_PARAMS, f"Prompt {name} not found. Available prompts: {', '.join(known)}")

    def tool_name(self, called: str) -> str:
        """Tools of single Actors may also be called `user/name` and `user-slash-name`."""
        user, separator, actor = called.replace("-slash-", "/", 1).partition("/")
        return actor_tool_name(f"{user}/{actor}") if separator and user and actor else called

    def shown(self, definition: Tool) -> None:
        """Every schema is listed as that server lists it."""
        del definition

    def task_support(self, definition: Tool) -> str | None:
        """Tools that run an Actor and may be waited for, and no others."""
        return "optional" if definition.calls_actor and definition.task_use is not TaskUse.NEVER else None

    def no_task(self, definition: Tool) -> MCPError:
        """Name the tool and the correct way to call it."""
        return MCPError(
            INVALID_PARAMS,
            f'Tool "{definition.name}" does not support long running task calls.\n'
            "Call it without `task`: it takes seconds.",
        )

    def arguments(self, definition: Tool, schema: JsonObject, given: dict[str, Any] | None) -> dict[str, JsonValue]:
        """The arguments in the types of the schema, without unknown ones; the first violation is a protocol error."""
        if given is None:
            raise MCPError(INVALID_PARAMS, f'Missing arguments for tool "{definition.name}".\n{_SEE_SCHEMA}')
        arguments = coerced_object(schema, given)
        if definition.arguments is None and definition.actor is not None:
            # Admission checks the Actor's own schema, within bounds. The wait is ours.
            properties = cast(JsonObject, schema.get("properties") or {})
            wait = {name: entry for name, entry in properties.items() if name == WAIT_ARGUMENT}
            schema = {"properties": wait} if definition.calls_actor else {}
        violation = first_violation(schema, arguments)
        if violation is not None:
            raise _invalid(definition, violation)
        return arguments

    def unknown_tool(self, name: str, envelope: ErrorEnvelope, data: JsonObject, tools: ToolSet) -> MCPError:
        """Names the tools that there are."""
        del envelope
        listed = ", ".join(tools.tools)
        return MCPError(INVALID_PARAMS, f'Tool "{name}" was not found.\nAvailable tools: {listed}.', data=data)

    def refused(self, definition: Tool, arguments: Mapping[str, JsonValue], error: InvalidCall) -> ToolResult:
        """Arguments that break the tool's schema are a protocol error, an Actor's input that breaks its own is not."""
        if isinstance(error, UnpaidCall) and error.terms is not None:
            return demand_for_payment(error.envelope, error.terms)
        violations = error.envelope.violations or ()
        if error.envelope.category is not ErrorCategory.VALIDATION or not violations:
            return ToolResult.failed(error.envelope)
        if isinstance(error, UnfitInput):
            return _refused_input(str(arguments.get("actor", "")), error, violations)
        raise _invalid(definition, _first(definition, arguments, violations))

    def failure(self, result: ToolResult, tool: str, tools: ToolSet) -> ToolResult:
        """Names the tool for reports, where there is one."""
        return naming_reports(result) if tool != REPORT and REPORT in tools.tools else result

    def refused_task(self, definition: Tool, error: InvalidCall) -> MCPError:
        """As `refused`, always as a protocol error."""
        violations = error.envelope.violations or ()
        if error.envelope.category is ErrorCategory.VALIDATION and violations:
            return _invalid(definition, f"{violations[0].path or 'root'}: {violations[0].message}")
        if isinstance(error, UnpaidCall) and error.terms is not None:
            return MCPError(INVALID_PARAMS, error.envelope.message, data=error.terms)
        return super().refused_task(definition, error)

    def adapted_error(self, error: MCPError, *, is_modern: bool) -> MCPError:
        """In 2025-11-25 the message begins with the code."""
        if is_modern:
            return error
        details = error.error
        return MCPError(details.code, f"MCP error {details.code}: {details.message}", data=details.data)

    def adapted_task_error(self, error: MCPError, task_id: str, *, is_modern: bool) -> MCPError:
        """As `adapted_error`; a task that the caller does not have is named."""
        if error.error.data == _NO_TASK:
            error = MCPError(error.error.code, f'Task "{task_id}" not found', data=error.error.data)
        return self.adapted_error(error, is_modern=is_modern)

    def not_cancelled(self, task: Task) -> MCPError:
        """Names the task and its status."""
        status = TaskStatus.CANCELLED if task.is_cancelling else task.status
        return MCPError(INVALID_PARAMS, f'Cannot cancel task "{task.id}" with status "{status}"')

    def progress(self, facts: ProgressFacts) -> ProgressNote | None:
        """Return the Actor, its run's status and status message; the run's id is in `_meta` alone."""
        if facts.run_id is None or facts.event not in _REPORTED_EVENTS:
            return None
        is_watched = {"run_id", "run_status"} <= facts.data.keys()
        status = facts.data.get("run_status") if facts.event == "status_message" else facts.data.get("status")
        message = facts.data.get("run_message" if is_watched else "status_message")
        if facts.event == "run_finished":
            message = None  # What it last said while it ran says nothing of its end.
        actor = facts.data.get("actor_name") or facts.actor or "Actor"
        message = f"{actor}: {status or 'RUNNING'}" + (f" — {message}" if message else "")
        return ProgressNote(message, meta={USAGE_META: {"runId": facts.run_id}})

    def task_status(self, task: Task) -> str:
        """Complete a task whose tool explained its failure, like one whose run failed."""
        if task.status is not TaskStatus.FAILED or not task.answered or task.is_defect or not task.status_message:
            return task.status
        return task.status if is_thrown(task.status_message) else TaskStatus.COMPLETED

    def status_message(self, task: Task) -> str | None:
        """Return the Actor, its run's status and status message; questions to people are shown as in every mode."""
        if task.status is TaskStatus.CANCELLED or task.is_cancelling:
            return "Cancelled by client"
        if task.run is None and not task.status_message:
            return ""
        if task.run is None or task.asks_people:
            return None
        message = f" — {task.run.status_message}" if task.run.status_message else ""
        return f"{task.run.actor_name or task.actor or task.tool}: {task.run.status}{message}"

    def still_working(self, definition: Tool, task: Task) -> ToolResult:
        """Explain why there is no run yet, and where to find it later: a result would not match the schema."""
        doing = task.status_message or task.status
        message = f"{definition.name} has not started its run yet: {doing}."
        hint = f"It continues as task {task.id}. Do not call again: the run will be in get-actor-run-list."
        envelope = ErrorEnvelope.permanent(ErrorCategory.TIMEOUT, definition.name, message, hint=hint)
        return ToolResult(content=(TextContent(text=f"{message} {hint}"),), is_error=True, error=envelope)

    def state_tool_of(self, definition: Tool) -> str | None:
        """Return the tool that shows the run, if the call's own tool does."""
        return (
            widgets.GET_ACTOR_RUN_WIDGET.name if definition.name == widgets.CALL_ACTOR_WIDGET.name else self.state_tool
        )

    def state_arguments(self, run_id: str) -> dict[str, JsonValue]:
        """Return the arguments for the current state."""
        return {**super().state_arguments(run_id), "waitSecs": 0}


def _first(definition: Tool, arguments: Mapping[str, Any], violations: tuple[Violation, ...]) -> str:
    """Return the first violation in the wording of Ajv, if it is found quickly."""
    found = quick_first_violation(definition.input_schema, coerced_object(definition.input_schema, dict(arguments)))
    return found or f"{violations[0].path or 'root'}: {violations[0].message}"


def _invalid(definition: Tool, violation: str) -> MCPError:
    text = f'Invalid arguments for tool "{definition.name}".\nValidation errors: {violation}.\n{_SEE_SCHEMA}'
    return MCPError(INVALID_PARAMS, text)


def _refused_input(actor: str, error: UnfitInput, violations: tuple[Violation, ...]) -> ToolResult:
    """Three texts, as that server has them: what failed, the Actor's schema, and each violation."""
    schema = simplified_schema(shown_schema(error.input_schema), max_bytes=_MAX_SCHEMA_BYTES)
    lines = [f"{violation.path.removeprefix('/input') or '/'}: {violation.message}" for violation in violations]
    texts = (
        f"Input validation failed for Actor '{actor}'. Nothing was started.",
        f"Input schema:\n```json\n{compact(schema)}\n```",
        "Validation errors:\n" + "\n".join(lines),
    )
    return ToolResult(content=tuple(TextContent(text=text) for text in texts), is_error=True, error=error.envelope)
