"""`Tool`, the frozen definition of a tool, and `ToolBuilder`, which makes one."""

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError
from temporalio import workflow

from outlast.activities.contracts import JsonObject
from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope, Violation
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.contracts.unknown_fields import KnownFieldsOnly
from outlast.workflows.handler_api.context import ToolContext
from outlast.workflows.handler_api.failures import ToolError
from outlast.workflows.tools.framework.definition_rules import Parts, handler_of
from outlast.workflows.tools.framework.frozen_json import SchemaText
from outlast.workflows.tools.framework.phases import (
    DEFAULT_DEADLINE,
    Approval,
    Authority,
    ClientPhase,
    PlainFunction,
    violations_of,
)

Handler = Callable[[ToolContext, Any], Awaitable[ToolResult]]
Part = Callable[..., Awaitable[Any]]
"""Workflow code of (ctx, arguments) or, after a client phase, (ctx, arguments, reply); or a function under @plain."""


class Category(StrEnum):
    """Groups by which tools are selected. The same in every mode."""

    ACTORS = "actors"
    RUNS = "runs"
    DOCS = "docs"
    STORAGE = "storage"
    TASKS = "tasks"
    SCHEDULES = "schedules"
    BATCHES = "batches"
    CALL_SCHEDULES = "call-schedules"
    EXPERIMENTAL = "experimental"
    DEV = "dev"
    UI = "ui"


class TaskUse(StrEnum):
    """When the front door answers a call with a task, for clients that support tasks and let the server decide."""

    NEVER = "never"
    """The call returns the answer: the tool takes seconds."""
    ALWAYS = "always"
    AFTER_QUESTIONS = "after_questions"
    """The tool's first questions are asked in the call; then the call becomes a task."""
    REQUIRED = "required"
    """As `ALWAYS`, and clients without support for tasks are refused."""


class Arguments(KnownFieldsOnly):
    """Base of every tool's arguments: frozen, unknown names refused, camelCase or snake_case as the tool spells it."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, allow_inf_nan=False)

    @classmethod
    def _bounds(cls) -> AbstractContextManager[None]:
        """Workflows read recorded arguments, which may be from before there was a bound."""
        return nullcontext() if workflow.in_workflow() else super()._bounds()


class NoArguments(Arguments):
    """For tools that take none."""


@dataclass(frozen=True)
class ToolAnnotations:
    """Hints for clients (MCP `ToolAnnotations`). One that is None is left out."""

    title: str
    read_only: bool = False
    destructive: bool = False
    idempotent: bool | None = False
    open_world: bool = True

    def as_mcp(self) -> dict[str, bool | str]:
        """The hints that there are, by MCP's names."""
        hints = {
            "title": self.title,
            "readOnlyHint": self.read_only,
            "destructiveHint": self.destructive,
            "idempotentHint": self.idempotent,
            "openWorldHint": self.open_world,
        }
        return {name: hint for name, hint in hints.items() if hint is not None}


@dataclass(frozen=True)
class Tool:
    """The definition of a tool. It never changes; a variant is a new `Tool`."""

    name: str
    category: Category
    description: str
    annotations: ToolAnnotations
    handler: Handler
    arguments: type[BaseModel] | None
    input_text: SchemaText
    output_text: SchemaText | None = None
    meta_json: str = "{}"
    calls_actor: bool = False
    actor: str | None = None
    payment_scheme: str | None = None
    in_front: bool = False
    task_use: TaskUse = TaskUse.NEVER
    client_needs: tuple[str, ...] = ()
    output_threshold: int | None = None
    restores: bool = False
    stores: bool = True
    executor_kind: Literal["sync", "async"] | None = None
    """When the answer of a call that runs an Actor comes, where that is not as in the rest of the mode."""
    twin_of: str | None = None
    """The tool that does the same and shows it otherwise: the operator's rules about it are about this one, too."""
    sealed_fields: tuple[str, ...] = ()
    """Places of arguments that may hold secrets (`input`, `actions/*/input`): the front door seals each as a whole, and
    an activity opens it."""
    planned_actors: tuple[str, ...] = ()
    planned_tasks: tuple[str, ...] = ()
    """Places of arguments that name Actors, and saved tasks of Actors, which the platform runs later on: the operator's
    rules are about them as about those that a call runs."""
    authority: Authority = Authority.SERVER
    client: ClientPhase | None = None
    approval: Approval | None = None
    functions: tuple[tuple[str, PlainFunction], ...] = ()
    """Plain functions by the step that each carries out."""
    icon_url: str | None = None
    """A picture (PNG) that clients may show beside it."""
    run_memory_mbytes: int | None = None
    """The memory that the tool of a single Actor asks for; None: the Actor's own default."""

    @property
    def may_store(self) -> bool:
        """Whether an ordinary call can have its output stored, because its arguments do not limit the size."""
        return self.stores and not self.in_front and not self.restores

    @property
    def may_outlast_connection(self) -> bool:
        """Whether a call may take longer than clients wait: it runs an Actor or the author's code, or asks somebody."""
        asks = self.client is not None or self.approval is not None
        return self.calls_actor or asks or bool(self.functions) or self.task_use is not TaskUse.NEVER

    @property
    def runs_actor(self) -> bool:
        """Whether a call runs an Actor, or asks one that is an MCP server."""
        return self.calls_actor or self.actor is not None

    @property
    def needs_connection(self) -> bool:
        """Whether the tool needs a connection: to change its tools, or to manage its tasks."""
        return self.in_front or self.name == "add-actor"

    @property
    def input_schema_json(self) -> str:
        """The text of `input_schema`."""
        return self.input_text.json

    @property
    def output_schema_json(self) -> str | None:
        """The text of `output_schema`."""
        return self.output_text.json if self.output_text is not None else None

    @property
    def input_schema(self) -> dict[str, JsonValue]:
        """JSON Schema of the arguments; a fresh object at each call."""
        return json.loads(self.input_schema_json)

    @property
    def output_schema(self) -> dict[str, JsonValue] | None:
        """JSON Schema of `ToolResult.structured`; None when the tool has none."""
        return json.loads(self.output_text.json) if self.output_text is not None else None

    @property
    def meta(self) -> dict[str, JsonValue]:
        """The `_meta` of the tool's definition (MCP)."""
        return json.loads(self.meta_json)

    def parse(self, arguments: Mapping[str, JsonValue]) -> Any:
        """The arguments in the form that the handler takes. Raises `ToolError` that lists every violation."""
        if self.arguments is None:
            return dict(arguments)
        try:
            return self.arguments.model_validate(dict(arguments))
        except ValidationError as error:
            raise ToolError(invalid_arguments(self.name, violations_of(error))) from error


class ToolBuilder:
    """Collects the parts of a definition; `build()` checks them and returns the `Tool`."""

    def __init__(self, name: str) -> None:
        """Begin the definition of tool `name`."""
        self._name = name
        self._category: Category | None = None
        self._description = ""
        self._annotations: ToolAnnotations | None = None
        self._arguments: type[BaseModel] | None = NoArguments
        self._input_schema: SchemaText | None = None
        self._output_schema: SchemaText | None = None
        self._meta: dict[str, JsonValue] = {}
        self._parts = Parts()
        self._calls_actor = False
        self._actor: str | None = None
        self._executor_kind: Literal["sync", "async"] | None = None
        self._twin_of: str | None = None
        self._in_front = False
        self._task_use: TaskUse | None = None
        self._client_needs: tuple[str, ...] = ()
        self._output_threshold: int | None = None
        self._restores = False
        self._stores: bool | None = None
        self._keeps_output_schema = False
        self._sealed_fields: tuple[str, ...] = ()
        self._planned: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
        self._icon_url: str | None = None
        self._run_memory_mbytes: int | None = None

    @property
    def name(self) -> str:
        """The name of the tool."""
        return self._name

    def __call__(self, function: Callable[..., Any]) -> Any:
        """`@tool("name")` above a function: the function is the tool's."""
        from outlast.workflows.tools.framework.decorator import function_tool  # noqa: PLC0415 (it imports this module)

        return function_tool(function, name=self._name)

    def category(self, category: Category) -> Self:
        """The group by which the tool is selected."""
        self._category = category
        return self

    def describe(self, description: str) -> Self:
        """The text by which a model chooses the tool."""
        self._description = description.strip()
        return self

    def annotate(self, annotations: ToolAnnotations) -> Self:
        """Title and hints for clients."""
        self._annotations = annotations
        return self

    def args(self, model: type[BaseModel]) -> Self:
        """The arguments as a pydantic model; the tool's JSON Schema is derived from it."""
        self._arguments = model
        return self

    def args_schema(self, schema: Mapping[str, JsonValue]) -> Self:
        """JSON Schema of the arguments, for tools whose schema comes from elsewhere. The handler gets a dict."""
        self._arguments = None
        self._input_schema = SchemaText.of(schema)
        return self

    def output(self, model: type[BaseModel]) -> Self:
        """The structured answer as a pydantic model."""
        self._output_schema = SchemaText.of_model(model, "serialization")
        return self

    def output_schema(self, schema: Mapping[str, JsonValue]) -> Self:
        """JSON Schema of the structured answer, for tools whose schema comes from elsewhere."""
        self._output_schema = SchemaText.of(schema)
        return self

    def meta(self, **entries: JsonValue) -> Self:
        """Add entries to the `_meta` of the tool's definition (MCP)."""
        self._meta = {**self._meta, **entries}
        return self

    def authority(self, authority: Authority | Literal["server", "client"]) -> Self:
        """Who runs first: `server` (the default) or `client`. The server has the last word in both cases."""
        if authority not in set(Authority):
            raise ValueError(f"Tool {self._name!r}: .authority() takes 'server' or 'client', not {authority!r}.")
        self._parts.authority = Authority(authority)
        self._parts.given.append("authority")
        return self

    def server(self, handler: Part, *, calls_actor: bool = False, actor: str | None = None) -> Self:
        """The server's handler. `calls_actor`: it may start a run; `actor`: the tool stands for that Actor.

        With client authority the handler gets the client's `Reply` as its third argument.
        """
        self._parts.server = handler
        self._parts.calls_actor = self._calls_actor = calls_actor
        self._parts.given.append("server")
        self._actor = actor
        return self

    def client(self, phase: ClientPhase, *, merge: Part | None = None) -> Self:
        """The client's phase: before the server with client authority, after it with server authority.

        `merge`, for server authority: a third step, of (arguments, result, reply), that makes one result of the
        server's and the client's answer. Without it the client's answer is added to the server's.
        """
        self._parts.client, self._parts.merge = phase, merge
        self._parts.given.append("client")
        return self

    def approval(
        self,
        *,
        when: Callable[[Any], bool] | None = None,
        message: str | Callable[[Any], str] | None = None,
        deadline: timedelta = DEFAULT_DEADLINE,
    ) -> Self:
        """Require an approval before the tool runs: for every call, or for those that `when` picks."""
        if deadline <= timedelta(0):
            raise ValueError(f"Tool {self._name!r}: give .approval() a deadline longer than zero; days are fine.")
        self._parts.approval = Approval(when, message, deadline)
        self._parts.given.append("approval")
        return self

    def handoff(self, before: Part, client: ClientPhase, after: Part) -> Tool:
        """Server, client, server: `before` makes the client's parameters, `after` decides on its reply.

        For server authority only. Returns the finished definition, as `build()` does.
        """
        given = [*self._parts.given, "handoff"]
        self._parts = replace(self._parts, before=before, client=client, after=after, given=given)
        return self.build()

    def long_running(self, use: TaskUse = TaskUse.ALWAYS) -> Self:
        """The call may take longer than a client waits. Tools that may start a run have this by default."""
        self._task_use = use
        return self

    def answers_at_start(self) -> Self:
        """A call that runs an Actor is answered when the run has begun, in every mode, and is no task for its client.

        The workflow follows the run to its end all the same. The executor of the handler has to be asynchronous.
        """
        self._executor_kind = "async"
        self._task_use = TaskUse.NEVER
        return self

    def twin_of(self, name: str) -> Self:
        """The tool does what tool `name` does: the operator's rules about that one are about this one, too."""
        self._twin_of = name
        return self

    def output_threshold(self, size_bytes: int) -> Self:
        """Store only answers above this size; for tools whose arguments limit their answers. A call may set its own."""
        self._output_threshold = size_bytes
        return self

    def stores_large_outputs(self) -> Self:
        """The tool stores outputs by itself, even if its answers are limited."""
        self._stores = True
        return self

    def keep_output_schema(self) -> Self:
        """Publish the output schema unchanged: it has a locator of its own, or it belongs to another server."""
        self._keeps_output_schema = True
        return self

    def gives_back_outputs(self) -> Self:
        """The answers are parts of stored outputs, limited in size, and are never stored again."""
        self._restores = True
        return self

    def seals(self, *places: str) -> Self:
        """Where arguments may hold secrets: `input`, or `actions/*/input` for the elements of a list.

        The handler gets them sealed and passes them to an activity as they are.
        """
        self._sealed_fields = places
        return self

    def plans(self, *, actors: tuple[str, ...] = (), tasks: tuple[str, ...] = ()) -> Self:
        """Where arguments name Actors, and saved tasks, that the platform runs later on: `actions/*/actorId`."""
        self._planned = (actors, tasks)
        return self

    def icon(self, url: str | None) -> Self:
        """A picture (PNG) that clients may show beside the tool; None for none."""
        self._icon_url = url
        return self

    def run_memory(self, mbytes: int | None) -> Self:
        """The memory that the tool of a single Actor asks for; None for the Actor's own default."""
        self._run_memory_mbytes = mbytes
        return self

    def needs_client(self, *capabilities: str) -> Self:
        """MCP client capabilities (`sampling`, `elicitation`, `roots`) without which a call is refused."""
        self._client_needs = capabilities
        return self

    def front_door(self) -> Self:
        """The front door answers the tool itself, without a task; for example the tools that manage tasks."""
        self._parts.in_front = self._in_front = True
        return self

    def build(self) -> Tool:
        """The definition. Raises `ValueError` that names the missing step, or the parts that do not fit together."""
        self._parts.output_text = self._published_output_schema()
        handler = _answered_in_front if self._in_front else None
        handler = handler_of(self._name, self._parts) or handler
        if handler is None:
            raise ValueError(f"Tool {self._name!r} has no handler: call .server(handler) before .build().")
        if self._category is None:
            raise ValueError(f"Tool {self._name!r} has no category: call .category(Category.…) before .build().")
        if self._category not in set(Category):
            raise ValueError(
                f"Tool {self._name!r}: {self._category!r} is not a category; use one of: {', '.join(Category)}."
            )
        if self._arguments is not None and not _is_model(self._arguments):
            raise ValueError(
                f"Tool {self._name!r}: .args() takes a pydantic model, not {self._arguments!r}: write "
                "`class Args(Arguments): ...`."
            )
        if not self._description:
            raise ValueError(f"Tool {self._name!r} has no description: call .describe(text) before .build().")
        return Tool(
            name=self._name,
            category=Category(self._category),
            description=self._description,
            annotations=self._annotations or ToolAnnotations(title=self._name),
            handler=handler,
            arguments=self._arguments,
            input_text=self._input_schema or SchemaText.of_model(self._arguments or NoArguments, "validation"),
            output_text=self._parts.output_text,
            meta_json=json.dumps(self._meta),
            calls_actor=self._calls_actor,
            actor=self._actor,
            in_front=self._in_front,
            task_use=self._task_use or self._usual_task_use(),
            client_needs=self._client_needs,
            output_threshold=self._output_threshold,
            restores=self._restores,
            stores=self._output_threshold is None if self._stores is None else self._stores,
            executor_kind=self._executor_kind,
            twin_of=self._twin_of,
            sealed_fields=self._sealed_fields,
            planned_actors=self._planned[0],
            planned_tasks=self._planned[1],
            authority=self._parts.authority,
            client=self._parts.client,
            approval=self._parts.approval,
            functions=self._parts.functions,
            icon_url=self._icon_url,
            run_memory_mbytes=self._run_memory_mbytes,
        )

    def _usual_task_use(self) -> TaskUse:
        if self._calls_actor:
            return TaskUse.ALWAYS
        asks = self._parts.client is not None or self._parts.approval is not None
        return TaskUse.AFTER_QUESTIONS if asks else TaskUse.NEVER

    def _published_output_schema(self) -> SchemaText | None:
        """The schema of the structured answer, or of the short form of a stored one."""
        if self._output_schema is None or self._keeps_output_schema or self._restores or self._in_front:
            return self._output_schema
        return self._output_schema.or_compressed()


def _is_model(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def tool(name: str) -> ToolBuilder:
    """Begin the definition of a tool."""
    return ToolBuilder(name)


def with_description(definition: Tool, description: str) -> Tool:
    """A copy of the definition with another description."""
    return replace(definition, description=description)


def invalid_arguments(tool_name: str, violations: tuple[Violation, ...]) -> ErrorEnvelope:
    """The error for arguments that do not fit a tool's schema."""
    return ErrorEnvelope.permanent(
        ErrorCategory.VALIDATION,
        tool_name,
        f"The arguments of {tool_name} do not fit its schema.",
        hint="Correct every violation listed and call again.",
        violations=violations,
    )


async def _answered_in_front(ctx: ToolContext, _arguments: BaseModel) -> ToolResult:
    raise ToolError(
        ErrorEnvelope.permanent(
            ErrorCategory.VALIDATION,
            ctx.call.tool,
            f"{ctx.call.tool} is answered by the front door and starts no task.",
            hint="Call it over MCP, or use the task endpoints of the REST API.",
        )
    )


EACH = "*"


def values_at(arguments: JsonObject, place: str) -> Iterator[JsonValue]:
    """Every value that there is at a place."""
    yield from _values_below(arguments, place.split("/"))


def _values_below(value: JsonValue, place: list[str]) -> Iterator[JsonValue]:
    if not place:
        yield value
        return
    here, *below = place
    if here == EACH and isinstance(value, list):
        for entry in value:
            yield from _values_below(entry, below)
    elif isinstance(value, dict) and here in value:
        yield from _values_below(value[here], below)
