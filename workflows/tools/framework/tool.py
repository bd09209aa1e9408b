"""`Tool`, the frozen definition of a tool, and `ToolBuilder`, which makes one."""

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError
from temporalio import workflow

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope, JsonObject, Violation
from outlast.workflows.contracts.tool_calls import ServerTarget, ToolResult
from outlast.workflows.contracts.unknown_fields import KnownFieldsOnly
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.handler_api.failures import ToolError
from outlast.workflows.tools.answers import MAX_ANSWER_BYTES
from outlast.workflows.tools.framework.definition_rules import Parts, annotation_problem, handler_of
from outlast.workflows.tools.framework.frozen_json import SchemaText
from outlast.workflows.tools.framework.phases import (
    DEFAULT_DEADLINE,
    Approval,
    Authority,
    ClientPhase,
    PlainFunction,
    violations_of,
)

Handler = Callable[[HandlerContext, Any], Awaitable[ToolResult]]
Part = Callable[..., Awaitable[Any]]
"""Workflow code of (ctx, arguments) or, after a client phase, (ctx, arguments, reply); or a function under @plain."""


TAGS_META = "outlast/tags"
"""Key in the `_meta` of a tool's definition: its tags."""


class Category(StrEnum):
    """Groups by which tools are selected, the same in every mode."""

    ACTORS = "actors"
    RUNS = "runs"
    DOCS = "docs"
    STORAGE = "storage"
    TASKS = "tasks"
    SCHEDULES = "schedules"
    BATCHES = "batches"
    CALL_SCHEDULES = "call-schedules"
    PROGRAMS = "programs"
    SERVERS = "servers"
    """Tools of the MCP servers in the operator's file."""
    EXPERIMENTAL = "experimental"
    DEV = "dev"
    UI = "ui"


class TaskUse(StrEnum):
    """Condition for answering a call with a task, for clients that leave the decision to the server."""

    NEVER = "never"
    """The call returns the answer, because the tool takes seconds."""
    ALWAYS = "always"
    AFTER_QUESTIONS = "after_questions"
    """The tool's first questions are asked in the call; then the call becomes a task."""
    REQUIRED = "required"
    """The same as `ALWAYS`, but clients without support for tasks are rejected."""


class Arguments(KnownFieldsOnly):
    """Base of every tool's arguments: frozen, without unknown names; camelCase or snake_case, as the tool defines."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, allow_inf_nan=False)

    @classmethod
    def _bounds(cls) -> AbstractContextManager[None]:
        """Check no bounds in workflows: recorded arguments may be older than a bound."""
        return nullcontext() if workflow.in_workflow() else super()._bounds()


class NoArguments(Arguments):
    """Arguments of a tool that takes none."""


@dataclass(frozen=True)
class ToolAnnotations:
    """Hints for clients (MCP `ToolAnnotations`). Hints that are None are left out."""

    title: str
    read_only: bool = False
    destructive: bool = False
    idempotent: bool | None = False
    open_world: bool = True

    def as_mcp(self) -> dict[str, bool | str]:
        """Return the hints under their MCP names."""
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
    """Definition of a tool. It never changes; a variant is a new `Tool`."""

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
    """Executor of a call that runs an Actor, if it differs from that of the mode."""
    twin_of: str | None = None
    """Tool that does the same and presents it differently. The operator's rules for it apply to this one too."""
    sealed_fields: tuple[str, ...] = ()
    """Places of arguments that may contain secrets (`input`, `actions/*/input`): the entry point encrypts each as a
    whole, and an activity decrypts it."""
    planned_actors: tuple[str, ...] = ()
    planned_tasks: tuple[str, ...] = ()
    """Places of arguments that name Actors, and saved tasks of Actors, for later runs by the platform. The operator's
    rules apply to them as to Actors that a call runs."""
    authority: Authority = Authority.SERVER
    client: ClientPhase | None = None
    approval: Approval | None = None
    functions: tuple[tuple[str, PlainFunction], ...] = ()
    """Plain functions with the names of their steps."""
    icon_url: str | None = None
    """Picture (PNG) that clients may show beside it."""
    run_memory_mbytes: int | None = None
    """Memory for runs by the tool of a single Actor; None: the Actor's default."""
    budget_usd: Decimal | None = None
    """Maximum cost of one call in US dollars; a lower limit of the caller takes precedence."""
    reuse: str | None = None
    """Maximum age of an answer of an identical call that answers a call (`10m`), where caller and operator set none."""
    tags: tuple[str, ...] = ()
    """Further groups by which connections select it: `tag:billing`."""
    secrets: tuple[str, ...] = ()
    """Names of the secrets that its function may read. Their values are in the environment of workers."""
    server: ServerTarget | None = field(default=None, hash=False)
    """For a tool of an MCP server in the operator's file: what a call of it needs to know."""
    version: int = 1
    older_versions: "tuple[Tool, ...]" = ()
    """Kept for open calls that were made with them."""

    @property
    def may_store(self) -> bool:
        """True if outputs of ordinary calls may be stored, because the arguments do not limit their size."""
        return self.stores and not self.in_front and not self.restores

    @property
    def may_outlast_connection(self) -> bool:
        """True if a call may take longer than clients wait: it runs an Actor or the author's code, or asks a person."""
        asks = self.client is not None or self.approval is not None
        return self.calls_actor or asks or bool(self.functions) or self.task_use is not TaskUse.NEVER

    @property
    def runs_actor(self) -> bool:
        """True if a call runs an Actor, or calls one that is an MCP server."""
        return self.calls_actor or self.actor is not None

    @property
    def needs_connection(self) -> bool:
        """True if the tool changes the tools of its connection, or manages its tasks."""
        return self.in_front or self.name == "add-actor"

    @property
    def calls_tools(self) -> bool:
        """True if one of its functions has a context, with which it can call other tools."""
        return any(function.takes_context for _, function in self.functions)

    @property
    def is_function(self) -> bool:
        """True if an activity is all that handles it."""
        return self.client is None and [step for step, _ in self.functions] == ["server"]

    @property
    def input_schema_json(self) -> str:
        """Text of `input_schema`."""
        return self.input_text.json

    @property
    def output_schema_json(self) -> str | None:
        """Text of `output_schema`."""
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
        """`_meta` of the tool's definition (MCP)."""
        tags: dict[str, JsonValue] = {TAGS_META: list(self.tags)} if self.tags else {}
        return {**json.loads(self.meta_json), **tags}

    def parse(self, arguments: Mapping[str, JsonValue]) -> Any:
        """Return the arguments in the form for the handler. Raises `ToolError` that lists every violation."""
        if self.arguments is None:
            return dict(arguments)
        try:
            return self.arguments.model_validate(dict(arguments))
        except ValidationError as error:
            raise ToolError(invalid_arguments(self.name, violations_of(error))) from error


class ToolBuilder:
    """Collects the parts of a definition; `build()` checks them and returns the `Tool`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._fields: dict[str, Any] = {}
        self._arguments: type[BaseModel] | None = NoArguments
        self._output_schema: SchemaText | None = None
        self._keeps_output_schema = False
        self._meta: dict[str, JsonValue] = {}
        self._parts = Parts()

    def _set(self, **fields: Any) -> Self:
        self._fields.update(fields)
        return self

    @property
    def name(self) -> str:
        """Name of the tool."""
        return self._name

    def __call__(self, function: Callable[..., Any]) -> Any:
        """Make the function below `@tool("name")` a tool."""
        from outlast.workflows.tools.framework.decorator import function_tool  # noqa: PLC0415 (it imports this module)

        return function_tool(function, name=self._name)

    def category(self, category: Category) -> Self:
        """Set the group by which the tool is selected."""
        return self._set(category=category)

    def describe(self, description: str) -> Self:
        """Set the text by which a model chooses the tool."""
        return self._set(description=description.strip())

    def annotate(self, annotations: ToolAnnotations) -> Self:
        """Set the title and the hints for clients."""
        return self._set(annotations=annotations)

    def args(self, model: type[BaseModel]) -> Self:
        """Set the arguments as a pydantic model, from which the tool's JSON Schema is derived.

        Unknown names are refused, unless the model has its own setting `extra`.
        """
        self._arguments = without_unknown_names(model) if _is_model(model) else model
        return self

    def args_schema(self, schema: Mapping[str, JsonValue]) -> Self:
        """Set the arguments as a JSON Schema, for tools whose schema comes from elsewhere. The handler gets a dict."""
        self._arguments = None
        return self._set(input_text=SchemaText.of(schema))

    def output(self, model: type[BaseModel]) -> Self:
        """Set the structured answer as a pydantic model."""
        self._output_schema = SchemaText.of_model(model, "serialization")
        return self

    def output_schema(self, schema: Mapping[str, JsonValue]) -> Self:
        """Set the structured answer as a JSON Schema, for tools whose schema comes from elsewhere."""
        self._output_schema = SchemaText.of(schema)
        return self

    def meta(self, **entries: JsonValue) -> Self:
        """Add entries to the `_meta` of the tool's definition (MCP)."""
        self._meta.update(entries)
        return self

    def authority(self, authority: Authority | Literal["server", "client"]) -> Self:
        """Choose the first side: `server` (the default) or `client`. The server decides last in both cases."""
        if authority not in set(Authority):
            raise ValueError(f"Tool {self._name!r}: .authority() takes 'server' or 'client', not {authority!r}.")
        self._parts.authority = Authority(authority)
        self._parts.given.append("authority")
        return self

    def server(self, handler: Part, *, calls_actor: bool = False, actor: str | None = None) -> Self:
        """Set the server's handler. `calls_actor`: it may start a run; `actor`: the Actor of a direct tool.

        With client authority the handler gets the client's `Reply` as its third argument.
        """
        self._parts.server, self._parts.calls_actor = handler, calls_actor
        self._parts.given.append("server")
        return self._set(calls_actor=calls_actor, actor=actor)

    def client(self, phase: ClientPhase, *, merge: Part | None = None) -> Self:
        """Set the client's phase: before the server with client authority, after it with server authority.

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
        """Require an approval before the tool runs: for every call, or for those that `when` selects."""
        if deadline <= timedelta(0):
            raise ValueError(f"Tool {self._name!r}: give .approval() a deadline longer than zero; days are fine.")
        self._parts.approval = Approval(when, message, deadline)
        self._parts.given.append("approval")
        return self

    def handoff(self, before: Part, client: ClientPhase, after: Part) -> Tool:
        """Set three steps: `before` makes the client's parameters, the client answers, `after` decides on its reply.

        For server authority only. Returns the finished definition, as `build()` does.
        """
        given = [*self._parts.given, "handoff"]
        self._parts = replace(self._parts, before=before, client=client, after=after, given=given)
        return self.build()

    def long_running(self, use: TaskUse = TaskUse.ALWAYS) -> Self:
        """Declare that a call may take longer than a client waits. This is the default for tools that start runs."""
        return self._set(task_use=use)

    def answers_at_start(self) -> Self:
        """Answer a call that runs an Actor when the run has begun, in every mode, and not with a task.

        The workflow still follows the run to its end. The executor of the handler has to be asynchronous.
        """
        return self._set(executor_kind="async", task_use=TaskUse.NEVER)

    def twin_of(self, name: str) -> Self:
        """Declare that the tool does what tool `name` does: the operator's rules for that one apply to this one too."""
        return self._set(twin_of=name)

    def output_threshold(self, size_bytes: int) -> Self:
        """Store only answers above this size, for tools whose arguments limit their answers. A call may override it."""
        return self._set(output_threshold=size_bytes)

    def stores_large_outputs(self) -> Self:
        """Declare that the tool stores outputs by itself, even if its answers are limited."""
        return self._set(stores=True)

    def keep_output_schema(self) -> Self:
        """Publish the output schema unchanged, because it has its own locator or belongs to another server."""
        self._keeps_output_schema = True
        return self

    def gives_back_outputs(self) -> Self:
        """Declare that answers are parts of stored outputs, limited in size, and are not stored again."""
        return self._set(restores=True)

    def seals(self, *places: str) -> Self:
        """Set the arguments that may contain secrets: `input`, or `actions/*/input` for the elements of a list.

        The handler gets them encrypted and passes them to an activity unchanged.
        """
        return self._set(sealed_fields=places)

    def of_server(self, target: ServerTarget) -> Self:
        """Declare that the tool is one of an MCP server in the operator's file."""
        return self._set(server=target)

    def plans(self, *, actors: tuple[str, ...] = (), tasks: tuple[str, ...] = ()) -> Self:
        """Set the arguments that name Actors, and saved tasks, for later runs by the platform: `actions/*/actorId`."""
        return self._set(planned_actors=actors, planned_tasks=tasks)

    def icon(self, url: str | None) -> Self:
        """Set a picture (PNG) that clients may show beside the tool."""
        return self._set(icon_url=url)

    def run_memory(self, mbytes: int | None) -> Self:
        """Set the memory for runs by the tool of a single Actor; None for the Actor's default."""
        return self._set(run_memory_mbytes=mbytes)

    def needs_client(self, *capabilities: str) -> Self:
        """Set the MCP client capabilities (`sampling`, `elicitation`, `roots`) without which a call is rejected."""
        return self._set(client_needs=capabilities)

    def front_door(self) -> Self:
        """Answer the tool in the entry point, without a task; for example the tools that manage tasks."""
        self._parts.in_front = True
        return self._set(in_front=True)

    def build(self) -> Tool:
        """Return the definition. Raises `ValueError` that names the missing step, or the parts that conflict."""
        parts, name = self._parts, self._name
        parts.output_text = self._published_output_schema()
        handler = handler_of(name, parts) or (_answered_in_front if parts.in_front else None)
        if handler is None:
            raise ValueError(f"Tool {name!r} has no handler: call .server(handler) before .build().")
        if problem := self._problem():
            raise ValueError(f"Tool {name!r}{problem}")
        asks = parts.client is not None or parts.approval is not None
        usual = TaskUse.ALWAYS if parts.calls_actor else TaskUse.AFTER_QUESTIONS if asks else TaskUse.NEVER
        defaults = {
            "annotations": ToolAnnotations(title=name),
            "input_text": SchemaText.of_model(self._arguments or NoArguments, "validation"),
            "task_use": usual,
            "stores": "output_threshold" not in self._fields,
        }
        fields: dict[str, Any] = {**defaults, **self._fields, "category": Category(self._fields["category"])}
        return Tool(
            name=name,
            handler=handler,
            arguments=self._arguments,
            output_text=parts.output_text,
            meta_json=json.dumps(self._meta),
            authority=parts.authority,
            client=parts.client,
            approval=parts.approval,
            functions=parts.functions,
            **fields,
        )

    def _problem(self) -> str | None:
        category = self._fields.get("category")
        if category is None:
            return " has no category: call .category(Category.…) before .build()."
        if category not in list(Category):
            return f": {category!r} is not a category; use one of: {', '.join(Category)}."
        if self._arguments is not None and not _is_model(self._arguments):
            return f": .args() takes a pydantic model, not {self._arguments!r}: write `class Args(Arguments): ...`."
        if problem := annotation_problem(self._parts, self._arguments):
            return problem
        if not self._fields.get("description"):
            return " has no description: call .describe(text) before .build()."
        return None

    def _published_output_schema(self) -> SchemaText | None:
        """Return the schema of the structured answer, which may also be the short form of a stored one."""
        never_stored = self._keeps_output_schema or self._fields.get("restores") or self._parts.in_front
        return self._output_schema if never_stored or not self._output_schema else self._output_schema.or_compressed()


def _is_model(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def without_unknown_names(model: type[BaseModel]) -> type[BaseModel]:
    """Return the model, or a subclass that refuses unknown names: pydantic ignores them, and so misspelt arguments."""
    if model.model_config.get("extra"):
        return model
    return type(model.__name__, (model,), {"model_config": ConfigDict(extra="forbid"), "__doc__": model.__doc__})


def tool(name: str) -> ToolBuilder:
    """Begin the definition of a tool."""
    return ToolBuilder(name)


def limited_tool(
    name: str,
    category: Category,
    annotations: ToolAnnotations,
    description: str,
    handler: Part,
    args: type[BaseModel],
    output: type[BaseModel],
) -> ToolBuilder:
    """Begin the definition of a tool whose arguments limit the size of its answers."""
    builder = tool(name).category(category).annotate(annotations).describe(description)
    return builder.args(args).output(output).server(handler).output_threshold(MAX_ANSWER_BYTES)


def front_door_tool(
    name: str, category: Category, annotations: ToolAnnotations, description: str, args: type[BaseModel]
) -> Tool:
    """Return a tool that entry points answer without a task."""
    return tool(name).category(category).describe(description).annotate(annotations).args(args).front_door().build()


def reads(title: str, *, open_world: bool = False) -> ToolAnnotations:
    """Return the annotations of a tool that changes nothing."""
    return ToolAnnotations(title=title, read_only=True, idempotent=True, open_world=open_world)


def with_description(definition: Tool, description: str) -> Tool:
    """Return a copy of the definition with another description."""
    return replace(definition, description=description)


def invalid_arguments(tool_name: str, violations: tuple[Violation, ...]) -> ErrorEnvelope:
    """Return the error for arguments that do not match a tool's schema."""
    return ErrorEnvelope.permanent(
        ErrorCategory.VALIDATION,
        tool_name,
        f"The arguments of {tool_name} do not fit its schema.",
        hint="Correct every violation listed and call again.",
        violations=violations,
    )


async def _answered_in_front(ctx: HandlerContext, _arguments: BaseModel) -> ToolResult:
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
    """Yield every value at a place."""
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
