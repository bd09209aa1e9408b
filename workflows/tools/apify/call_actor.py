"""`call-actor`, and the tool of a single Actor with its input schema."""

import math
import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any, Unpack, cast

from pydantic import JsonValue
from temporalio import workflow

from outlast.activities.bounds import MAX_SECONDS, usd_flaw
from outlast.activities.contracts import ErrorCategory, ErrorEnvelope, JsonObject
from outlast.activities.mcp_servers.contracts import NOT_CALLED, NOT_CONNECTED
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.handler_api.failures import ToolError
from outlast.workflows.tools.apify import answers
from outlast.workflows.tools.apify.schemas import RUN, arguments, begun, free_object, inner, integer, number, text
from outlast.workflows.tools.core.actor_mcp import call_tool_of
from outlast.workflows.tools.core.actor_names import MAX_TOOL_NAME, actor_tool_name, cut_name, split_actor_tool
from outlast.workflows.tools.core.actor_schema import cut, model_input_schema
from outlast.workflows.tools.core.call_actor import MAX_DESCRIPTION_CHARS, RunOptions, run_spec
from outlast.workflows.tools.framework.executors import ActorExecutor
from outlast.workflows.tools.framework.ids import MAX_ID_CHARS, unquoted
from outlast.workflows.tools.framework.mode import ActorFacts
from outlast.workflows.tools.framework.tool import Category, Tool, ToolAnnotations

MAX_FIELD_DESCRIPTION_CHARS = 500
MAX_ENUMS_CHARS = 2_000
"""Longest list of values of one field, in characters of all values together."""
_EXAMPLES, _EXAMPLE_CHARS = 10, 60
_CUT = " [Description truncated]"
_KEPT = ("title", "description", "type", "enum", "default", "prefill", "properties", "items", "required")
_FEW: dict[str, tuple[str, ...]] = {"apify/rag-web-browser": ("query", "maxResults", "outputFormats")}
"""Actors whose tool has only some of the fields."""
_DOT, _ENCODED_DOT = ".", "-dot-"


def actor_input_schema(actor: str, tool: str, schema: JsonObject) -> JsonObject:
    """Return the Actor's own schema, reduced for models, with names of fields without dots."""
    given = schema.get("properties")
    given = given if isinstance(given, dict) else {}
    few = _FEW.get(actor)
    guessed = cast(JsonObject, model_input_schema({"properties": given})["properties"])
    names = [name for name, each in given.items() if isinstance(each, dict) and (few is None or name in few)]
    required = [name for name in names if name in _required(schema)]
    properties: JsonObject = {}
    for name in names:
        own = cast(JsonObject, given[name])
        properties[encoded(name)] = _field(own, cast(JsonObject, guessed[name]), must=name in required)
    shaped = {key: schema[key] for key in ("title", "description") if key in schema}
    listed: list[JsonValue] = [
        name for name in required if _DOT not in name and cast(JsonObject, given[name]).get("default") is None
    ]
    identity = f"https://apify.com/mcp/{tool}/schema.json"
    return {**shaped, "type": "object", "properties": properties, "required": listed, "$id": identity}


def shown_schema(schema: JsonObject) -> JsonObject:
    """Return the Actor's own schema without the parts for the platform's form."""
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return schema
    fields: JsonObject = {
        name: {key: field[key] for key in _KEPT if key in field} if isinstance(field, dict) else field
        for name, field in properties.items()
    }
    return {**schema, "properties": fields}


def encoded(name: str) -> str:
    """Return the name of a field without dots."""
    return name.replace(_DOT, _ENCODED_DOT)


def decoded(arguments: JsonObject) -> JsonObject:
    """Return the arguments under the Actor's own names."""
    return {name.replace(_ENCODED_DOT, _DOT): value for name, value in arguments.items()}


def _required(schema: JsonObject) -> list[JsonValue]:
    names = schema.get("required")
    return names if isinstance(names, list) else []


def _field(field: JsonObject, guessed: JsonObject, *, must: bool) -> JsonObject:
    shaped = {key: field[key] for key in _KEPT if key in field}
    if field.get("isSecret") is True:
        shaped["writeOnly"] = True  # Entry points encrypt these fields (`api/tasks/recorded_arguments.py`).
    if "items" not in shaped and isinstance(guessed.get("items"), dict) and guessed["items"]:
        shaped["items"] = guessed["items"]
    if not shaped.get("properties") and guessed.get("properties"):
        shaped["properties"] = guessed["properties"]
    example = field.get("prefill") if field.get("prefill") not in (None, "", [], {}) else field.get("default")
    if example not in (None, "", [], {}, 0, False):
        shaped["examples"] = [example]
    description = _text(field.get("description"))
    if len(description) > MAX_FIELD_DESCRIPTION_CHARS:
        description = f"{description[:MAX_FIELD_DESCRIPTION_CHARS]}{_CUT}"
    if description or must:
        shaped["description"] = f"**REQUIRED** {description}".strip() if must else description
    _without_long_enum(shaped, shaped)
    if isinstance(shaped.get("items"), dict):
        shaped["items"] = items = dict(cast(JsonObject, shaped["items"]))
        _without_long_enum(items, shaped)
    return shaped


def _without_long_enum(holder: JsonObject, described: JsonObject) -> None:
    """Remove a list of values that is too long; the description of the field then has a few of them."""
    choices = holder.pop("enum", None)
    named = [choice for choice in choices if choice != ""] if isinstance(choices, list) else []
    if not named:
        return
    if sum(len(str(choice)) for choice in named) <= MAX_ENUMS_CHARS:
        holder["enum"] = named
        return
    short = [str(choice) for choice in named if len(str(choice)) <= _EXAMPLE_CHARS][:_EXAMPLES]
    choices = f"One of {len(named)} values" + (f", such as {', '.join(short)}." if short else ".")
    described["description"] = f"{described.get('description') or ''}\n\n{choices}".strip()


def _text(value: JsonValue) -> str:
    return re.sub(r"\s+$", "", value) if isinstance(value, str) else ""


MAX_MEMORY_MBYTES = 4_096
"""Most memory for the tool of a single Actor; `call-actor` uses the value of its caller."""
_PICTURE = re.compile(r"https?://[!-~]{1,2000}")
_SHORT_USER_CHARS = 8
_DIGEST_CHARS = 4
_INVALID_INPUT = "invalid-input"
"""Error type of the platform for an input that violates the Actor's schema."""
CANNOT_RUN = (
    "This connection cannot run this Actor: it has neither call-actor nor a tool of the Actor. The person who "
    "configured it can select either."
)
SOME_CANNOT_RUN = (
    "This connection can run only Actors that have a tool of their own in it. Others need call-actor, or their own "
    "name, among the tools that the person who set it up has selected."
)


def actor_tool(executor: ActorExecutor, actor: str, **facts: Unpack[ActorFacts]) -> Tool:
    """Return the tool of `actor` (`user/name`), whose arguments are the Actor's input."""
    name, picture_url, memory_mbytes = tool_name(actor), facts.get("picture_url"), facts.get("default_memory_mbytes")
    about = cut(facts["description"], MAX_DESCRIPTION_CHARS)
    hints = ToolAnnotations(title=actor, destructive=True, idempotent=None, open_world=True)
    does = (
        f"Run the Actor {actor} ({facts['title']}) and return the state of the run and its storages; read the items "
        f"with get-dataset-items. {about}"
    ).strip()
    definition = begun(
        name, Category.ACTORS, hints, does=does, arguments=actor_input_schema(actor, name, facts["schema"]), answer=RUN
    )
    return (
        definition.server(_actor_handler(executor, actor), calls_actor=True, actor=actor)
        .icon(picture_url if picture_url and _PICTURE.fullmatch(picture_url) else None)
        .run_memory(None if memory_mbytes is not None and memory_mbytes <= MAX_MEMORY_MBYTES else MAX_MEMORY_MBYTES)
        .build()
    )


def tool_name(actor: str) -> str:
    """Return the name of the Actor's tool, whose digest is shorter than in the other modes."""
    return actor_tool_name(actor, digest_chars=_DIGEST_CHARS)


def _actor_handler(executor: ActorExecutor, actor: str) -> answers.Handler:
    def wording(_given: dict[str, Any], envelope: ErrorEnvelope) -> str | None:
        refused_input = answers.refusal_type(envelope) == _INVALID_INPUT
        return f"Failed to call Actor '{actor}': {answers.platform_message(envelope)}" if refused_input else None

    @answers.failing_as(wording)
    async def run_actor(ctx: HandlerContext, given: dict[str, Any]) -> ToolResult:
        return await executor.execute_actor_tool(
            ctx, run_spec(ctx, actor, decoded(given), RunOptions(memory=ctx.call.run_memory_mbytes))
        )

    return run_actor


def can_run(ctx: HandlerContext, actor: str) -> bool:
    """Return whether the connection has `call-actor`, the tool of `actor` (`user/name`), or one of its MCP tools."""
    own = tool_name(actor)
    of_its_server = (name for name in ctx.call.offered_tools if name.startswith(f"{own}--"))
    return any(ctx.offers(name) for name in ("call-actor", own, *of_its_server))


def can_run_all(ctx: HandlerContext, actors: Iterable[str]) -> bool:
    """Return whether the caller's connection can run each of the Actors."""
    return all(can_run(ctx, actor) for actor in actors)


def mcp_tool_names(actor: str, tools: Sequence[str]) -> list[str]:
    """Return `user--name--search` for the tool `search` of `user/name`.

    If one name is too long, all have only the first eight characters of the user, and end in a digest of four digits.
    """
    user, _, name = actor.partition("/")
    user = user.replace(".", "-dot-")
    names = [f"{user}--{name}--{tool}" for tool in tools]
    if all(len(each) <= MAX_TOOL_NAME for each in names):
        return names
    short = user[:_SHORT_USER_CHARS].rstrip("-")
    return [
        cut_name(f"{short}--{name}--{tool}", whole, _DIGEST_CHARS) for tool, whole in zip(tools, names, strict=True)
    ]


DESCRIPTION = """
Run an Actor, a program on the Apify platform, by its name `user/name`, with an input that fits the Actor's own input
schema. The answer has the state of the run and its storages; read the items with get-dataset-items. A run that takes
longer than waitSecs continues: follow it with get-actor-run. Your account pays for the run; maxTotalChargeUsd limits
its cost.
"""


RUN_ARGUMENTS: JsonObject = {
    "input": free_object("Input that matches the Actor's input schema."),
    "callOptions": inner(
        {
            "memory": number("Memory in megabytes, a power of two.", minimum=128, maximum=32_768),
            "timeout": number("Maximum duration of the run, in seconds; 0 for no limit.", minimum=0),
            "build": text("Tag or number of the build. Default: that of the Actor."),
            "maxItems": integer("Maximum number of items that are charged.", exclusiveMinimum=0),
            "maxTotalChargeUsd": number("Maximum cost of the run, in US dollars.", exclusiveMinimum=0),
        },
        "Options of the run.",
    ),
}
"""Arguments of the tools that run any Actor, besides the Actor's name.

`options_of` checks the upper bounds, which Apify's schemas do not have.
"""


def not_called(given: dict[str, Any], envelope: ErrorEnvelope) -> str:
    """Return the text for a failed call of an Actor."""
    actor = unquoted(given.get("actor", ""))
    name, mcp_tool = split_actor_tool(actor)
    if envelope.message.startswith((NOT_CONNECTED, NOT_CALLED)):
        return envelope.message
    if answers.is_missing(envelope):
        return f"Actor '{name}' was not found. Check its name, `user/name`."
    if mcp_tool is not None:
        is_no_server = "is not an MCP server" in envelope.message
        return f"Actor '{name}' is not an MCP server." if is_no_server else envelope.message
    if answers.awaits_approval(envelope):
        return answers.platform_message(envelope)
    return f"Failed to call Actor '{actor}': {answers.platform_message(envelope)}"


def _handler(executor: ActorExecutor) -> answers.Handler:
    @answers.failing_as(not_called, search="search-actors")
    async def call_actor(ctx: HandlerContext, given: dict[str, Any]) -> ToolResult:
        actor, mcp_tool = split_actor_tool(unquoted(given["actor"]))
        run_input: JsonObject = given.get("input") or {}
        if mcp_tool is None:
            return await executor.execute_actor_tool(ctx, run_spec(ctx, actor, run_input, options_of(ctx, given)))
        answer = await call_tool_of(ctx, actor, mcp_tool, run_input)
        passed_on = _passed_on(actor, mcp_tool, failed=answer.is_error)
        content = answers.bounded(answer.raw_content or (), ctx.call.output.inline_limit_bytes)
        return answer.model_copy(update={"structured": passed_on, "raw_content": content, "meta": {}})

    return call_actor


def options_of(ctx: HandlerContext, given: dict[str, Any]) -> RunOptions:
    """Return the call's options; a timeout of 0 is none. Raises `ToolError` for values that the platform rejects."""
    options = cast("dict[str, Any]", given.get("callOptions") or {})
    cost, build, timeout = options.get("maxTotalChargeUsd"), options.get("build"), options.get("timeout") or 0
    if build and len(build) > MAX_ID_CHARS:
        raise _refused(ctx, f"callOptions.build has {len(build)} characters; the limit is {MAX_ID_CHARS}.")
    if timeout > MAX_SECONDS:
        raise _refused(ctx, f"callOptions.timeout is larger than {MAX_SECONDS} seconds. 0 is no limit.")
    if (flaw := _flaw_of(cost)) is not None and workflow.patched("budget-bounds"):
        raise _refused(ctx, flaw)
    return RunOptions(
        memory=int(options["memory"]) if options.get("memory") else None,
        timeout=math.ceil(timeout) or None,
        build=build or None,
        maxItems=options.get("maxItems"),
        maxTotalChargeUsd=Decimal(str(cost)) if cost is not None else None,
    )


def _flaw_of(cost: float | None) -> str | None:
    return usd_flaw({"callOptions.maxTotalChargeUsd": None if cost is None else Decimal(str(cost))})


def _refused(ctx: HandlerContext, message: str) -> ToolError:
    return ToolError(ErrorEnvelope.permanent(ErrorCategory.VALIDATION, ctx.call.tool, message))


def _passed_on(actor: str, mcp_tool: str, *, failed: bool) -> JsonObject:
    """Return the run response for an answer of an MCP server's tool, which has no run."""
    return {
        "runId": "mcp-passthrough",
        "actorId": actor,
        "actorName": actor,
        "status": "FAILED" if failed else "SUCCEEDED",
        "storages": {},
        "summary": f"{mcp_tool} of {actor} has {'failed' if failed else 'answered'}.",
        "nextStep": "Its answer is in the content.",
    }


def call_actor_tool(executor: ActorExecutor) -> Tool:
    """Return the definition with the mode's executor."""
    schema = arguments(
        {
            "actor": text(
                "The Actor: `user/name`, for example apify/rag-web-browser. `user/name:tool` is a tool of an Actor "
                "that is an MCP server."
            ),
            **RUN_ARGUMENTS,
        },
        required=("actor", "input"),
    )
    hints = ToolAnnotations(title="Call Actor", destructive=True, idempotent=False, open_world=True)
    definition = begun("call-actor", Category.ACTORS, hints, does=DESCRIPTION, arguments=schema, answer=RUN)
    return definition.server(_handler(executor), calls_actor=True).build()
