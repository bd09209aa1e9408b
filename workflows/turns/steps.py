"""One step of a turn, without its effects: active tools, a plan for each call, permissions, texts for models. Pure."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fnmatch import fnmatchcase

from pydantic import JsonValue

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope, JsonObject, Violation
from outlast.activities.conversations.contracts import ModelMessage, ToolCallPart, ToolResultPart
from outlast.activities.json_schema.coercion import coerced, with_kinds_sent
from outlast.activities.json_schema.violations import quick_violations
from outlast.activities.llm.contracts import CallModelInput, ModelStep, TurnPiece
from outlast.activities.llm.providers.models import MATRIX
from outlast.activities.runs.contracts import Budget
from outlast.workflows.contracts.sessions import MAX_PARALLEL_CALLS, TurnInput, TurnState, TurnTool
from outlast.workflows.contracts.tool_calls import (
    CallOptions,
    CarriedRule,
    InnerCalls,
    PermissionRuling,
    ToolCall,
    ToolResult,
)
from outlast.workflows.contracts.tool_masks import Outcome, Resolution, masked_tool, resolve
from outlast.workflows.tools.answers import answer_facts, answer_pieces, as_json
from outlast.workflows.tools.common.invalid import invalid_result
from outlast.workflows.tools.core.actor_names import (
    actor_tool_name,
    normalised_actor,
    proxied_tool_name,
    split_actor_tool,
)
from outlast.workflows.tools.core.payments import misplaced_payment
from outlast.workflows.tools.framework.ids import derived_task_id
from outlast.workflows.tools.framework.tool import invalid_arguments, values_at
from outlast.workflows.turns.budgets import last_step


@dataclass(frozen=True)
class PlannedCall:
    """A call by the model: executed as task `task_id`, or refused at once."""

    part: ToolCallPart
    name: str
    task_id: str | None = None
    call: ToolCall | None = None
    refusal: ToolResult | None = None
    counts: bool = True
    """True if its failure counts as the model's: a truncated call does not."""

    @property
    def arguments(self) -> dict[str, JsonValue]:
        """The arguments, by the tool's own names where the call is carried out; broken ones as they were written."""
        if self.call is not None:
            return self.call.arguments
        return {"raw": self.part.raw_arguments} if self.part.arguments is None else self.part.arguments

    @property
    def answer(self) -> ToolResult:
        """The result of a call that becomes no task."""
        return self.refusal or ToolResult.failed(_never_started(self.name))


def active_tools(turn: TurnInput, step: int) -> Resolution:
    """Active tools of step number `step` (from 1), by their own names; in the last step none."""
    names = (tool.name for tool in turn.snapshot.tools)
    is_last = step >= last_step(turn.budgets, turn.max_steps)
    return resolve(names, turn.tool_mask, is_last_step=is_last)


def ran_out(turn: TurnInput, step: int) -> bool:
    """Return True if step number `step` had no tools because it was the last one."""
    is_last = step >= last_step(turn.budgets, turn.max_steps)
    return is_last and bool(resolve((tool.name for tool in turn.snapshot.tools), turn.tool_mask).active)


def last_words(turn: TurnInput, call: CallModelInput) -> CallModelInput:
    """`call`, for a model that did not answer in words when no tool was active any more: its answer is a text now.

    Where a provider cannot be told to call no tool, the definitions are left out, at the price of its cache.
    """
    can = MATRIX.get(turn.provider_id)
    dynamic = "\n\n".join(text for text in (call.dynamic, LAST_WORDS) if text)
    if can is not None and can.forbids_all_tools:
        return call.model_copy(update={"dynamic": dynamic, "text_if_none": NO_WORDS})
    changes = {"dynamic": dynamic, "text_if_none": NO_WORDS, "definitions_json": "[]", "without_definitions": True}
    return call.model_copy(update=changes)


def model_call(turn: TurnInput, state: TurnState, active: Resolution) -> CallModelInput:
    """The input of the next call of the model. Its beginning is the same in every step, for the provider's cache."""
    everything = active.outcome is Outcome.UNMASKED
    names = tuple(tool.shown for tool in turn.snapshot.tools if tool.name in active.active)
    return CallModelInput(
        caller=turn.caller,
        provider_id=turn.provider_id,
        model_id=turn.model_id,
        session_id=turn.session_id,
        turn_id=turn.turn_id,
        step=state.step,
        system=turn.system,
        dynamic=turn.dynamic,
        definitions_json=turn.snapshot.definitions_json,
        prompt=turn.prompt,
        active_tools=None if everything else names,
        conversation=state.conversation or turn.conversation,
        messages=state.messages,
        keep=_kept_piece(state),
        max_output_tokens=turn.max_output_tokens,
        controls=turn.controls,
        window_tokens=turn.window_tokens,
        caps=turn.caps,
        sees_pictures=turn.sees_pictures,
    )


def _kept_piece(state: TurnState) -> TurnPiece | None:
    """Store the step's messages. The user's alone wait for the answer, so that most turns are one block."""
    if state.step == 1 or not state.messages:
        return None
    return TurnPiece(continues=state.continues, repeated=state.repeated)


def planned(
    turn: TurnInput, state: TurnState, active: Resolution, answer: ModelStep, *, coerces: Callable[[], bool]
) -> list[PlannedCall]:
    """The plan for each call in `answer`, in their order.

    `coerces` decides whether arguments that do not fit the schema are read as it has them; turns that began before
    that was possible refuse them. It is called only if there are such arguments.
    """
    count = min(len(answer.tool_calls), MAX_PARALLEL_CALLS)
    return [
        _cut_off(turn, answer, part)
        if is_cut_off(answer, part)
        else _planned(turn, state, active, part, index, count, coerces)
        for index, part in enumerate(answer.tool_calls)
    ]


def assistant_message(answer: ModelStep) -> ModelMessage | None:
    """The model's answer as a message; None when it is empty."""
    return ModelMessage(role="assistant", parts=answer.parts) if answer.parts else None


def result_part(planned_call: PlannedCall, result: ToolResult, reminder: str | None = None) -> ToolResultPart:
    """The part of a message that holds a result, failed or not: its output, then its facts as JSON, then a reminder."""
    pieces = answer_pieces(result)
    facts = answer_facts(result, tool=planned_call.name)
    lines = [piece for piece in pieces if isinstance(piece, str)] + ([as_json(facts)] if facts else [])
    text = "\n".join(lines) if pieces or facts else "(no output)"
    return ToolResultPart(
        call_id=planned_call.part.id,
        name=planned_call.part.name,
        text=f"{text}\n\n{reminder}" if reminder else text,
        media=tuple(piece for piece in pieces if not isinstance(piece, str)),
        is_error=result.is_error,
        locator=result.locator,
    )


def cancelled_result(tool: str) -> ToolResult:
    """The result of a call that was cancelled."""
    return ToolResult.failed(ErrorEnvelope.permanent(ErrorCategory.CANCELLED, tool, f"{tool} was cancelled."))


def task_id_of(turn: TurnInput, step: int, index: int, tool: str, call_id: str) -> str:
    """The id of the task that carries out one call: always the same for the same call."""
    return derived_task_id(tool, turn.caller.id, turn.session_id, turn.turn_id, step, index, call_id)


def _planned(
    turn: TurnInput,
    state: TurnState,
    active: Resolution,
    part: ToolCallPart,
    index: int,
    count: int,
    coerces: Callable[[], bool],
) -> PlannedCall:
    tool = _tool_named(turn.snapshot.tools, part.name)
    if tool is None:
        tried = part.raw_arguments if part.arguments is None else part.arguments
        return PlannedCall(part, part.name, refusal=invalid_result(part.name, tried, active.active))
    if tool.name not in active.active:
        return PlannedCall(part, tool.name, refusal=ToolResult.failed(masked_tool(tool.name, active)))
    if index >= MAX_PARALLEL_CALLS:
        return PlannedCall(part, tool.name, refusal=ToolResult.failed(_too_many(tool.name)))
    arguments = _own_arguments(tool, part)
    read = coerced(json.loads(tool.input_schema_json), arguments)
    changes = read.changes if read.changes and coerces() else ()
    arguments = read.arguments if changes else arguments
    actor = tool.actor or _actor_argument(tool, arguments)
    refusal = (
        _refusal(tool, part, arguments)
        or nameless_actor(turn.rules, tool.name, actor)
        or nameless_plan(turn.rules, tool, arguments)
    )
    if refusal is not None:
        return PlannedCall(part, tool.name, refusal=ToolResult.failed(refusal))
    task_id = task_id_of(turn, state.step, index, tool.name, part.id)
    ruling = ruling_of(turn.rules, tool.name, actor, planned_actors(tool, arguments))
    call = ToolCall(
        tool=tool.name,
        arguments=arguments,
        changes=changes,
        caller=turn.caller,
        session_id=turn.session_id,
        message_id=turn.message_id,
        tool_call_id=part.id,
        actor=tool.actor,
        options=_options(turn, state, count, tool.budget_usd),
        output=turn.output,
        offered_tools=active.active,
        tool_mask=turn.tool_mask,
        permission=ruling if tool.server is None else tool.server.ruling(ruling),
        has_approval=tool.has_approval,
        admitted_tool=tool.admitted_tool,
        caps=turn.caps,
        listeners=turn.listeners,
        inner=InnerCalls(rules=turn.rules, conversation=turn.session_id) if tool.calls_tools else None,
        server=tool.server
        and tool.server.for_call(caller_id=turn.caller.id, conversation=turn.session_id, task=task_id),
    )
    return PlannedCall(part, tool.name, task_id, call)


def _cut_off(turn: TurnInput, answer: ModelStep, part: ToolCallPart) -> PlannedCall:
    tool = _tool_named(turn.snapshot.tools, part.name)
    name = tool.name if tool else part.name
    error = cut_off_call(name, tokens=answer.usage.output_tokens or turn.max_output_tokens)
    return PlannedCall(part, name, refusal=ToolResult.failed(error), counts=False)


def _tool_named(tools: Sequence[TurnTool], name: str) -> TurnTool | None:
    shown = next((tool for tool in tools if tool.shown == name), None)
    return shown or next((tool for tool in tools if tool.name == name), None)


def _own_arguments(tool: TurnTool, part: ToolCallPart) -> dict[str, JsonValue]:
    return {tool.fields.get(name, name): value for name, value in (part.arguments or {}).items()}


def _actor_argument(tool: TurnTool, arguments: dict[str, JsonValue]) -> str | None:
    actor = arguments.get("actor") if tool.calls_actor else None
    return actor if isinstance(actor, str) else None


def _refusal(tool: TurnTool, part: ToolCallPart, arguments: dict[str, JsonValue]) -> ErrorEnvelope | None:
    """The error for arguments that are no JSON object, hold a payment or break the schema.

    The tool checks the schema again itself, and is the only one to do so where that takes long. The account pays for
    the calls of a turn: a payment among the arguments is one that the model made up.
    """
    if part.arguments is None:
        size, begin = len(part.raw_arguments), part.raw_arguments[:200]
        flaw = f"The arguments are no JSON object, or too long with {size} characters: {begin!r}"
        return invalid_arguments(tool.name, (Violation(path="", message=flaw),))
    schema = json.loads(tool.input_schema_json)
    misplaced = misplaced_payment(tool.name, schema, arguments)
    if misplaced is not None:
        return misplaced
    violations = with_kinds_sent(quick_violations(schema, arguments) or (), arguments)
    return invalid_arguments(tool.name, violations) if violations else None


def _options(turn: TurnInput, state: TurnState, count: int, limit_usd: Decimal | None) -> CallOptions:
    """An equal share of the remaining budget for each call of a step, so that together they stay within it."""
    budget = Budget()
    if turn.budgets.usd is not None:
        share = max(turn.budgets.usd - state.spent.usd, 0.0001) / max(count, 1)
        budget = Budget(max_total_charge_usd=Decimal(f"{share:.6f}"))
    return CallOptions(budget=budget.at_most(limit_usd), run_heartbeat_seconds=turn.run_heartbeat_seconds)


def _too_many(tool: str) -> ErrorEnvelope:
    return ErrorEnvelope.transient(
        ErrorCategory.VALIDATION,
        tool,
        f"At most {MAX_PARALLEL_CALLS} tools are called at once; this call was not carried out.",
        hint="Call it again in the next step.",
    )


def _never_started(tool: str) -> ErrorEnvelope:
    return ErrorEnvelope.permanent(ErrorCategory.UNKNOWN, tool, f"{tool} was not started.")


STATIC = """
You are an assistant that works with tools.
- Call several tools at once when they do not depend on each other.
- The answer of a failed call ends with a JSON object. In its `error`, `message`, `hint` and `violations` say what is
  wrong, `retryable` whether the same call may work later, `allowed_tools` what may be called. Never repeat a failed
  call unchanged unless it is retryable.
- When no tool may be called any more, answer with what you know.
""".strip()
LAST_WORDS = "No tool may be called any more. Answer the user now, in words, with what you know."
"""For a model that has answered nothing but calls of tools, or nothing at all, when no tool was active any more."""
NO_WORDS = (
    "The turn has reached its limit of steps, and the model has written no answer. The results of its tools are in the "
    "conversation: send another message to continue."
)
"""The text of a turn whose model writes nothing even then."""


def system_text(*, instructions: str = "", own: str = "") -> str:
    """Static text, then the server's instructions (skills included), then those that the session's owner gave."""
    parts = [STATIC, instructions.strip(), own.strip()]
    return "\n\n".join(part for part in parts if part)


def is_cut_off(answer: ModelStep, part: ToolCallPart) -> bool:
    """Return True if the output limit ended `answer` inside this call. Only the last call can be truncated.

    Arguments that are complete JSON were written to their end. Empty ones are what is left of a call that was cut
    before its first argument.
    """
    return answer.finish_reason == "length" and part is answer.tool_calls[-1] and not part.arguments


def cut_off_call(tool: str, *, tokens: int | None = None) -> ErrorEnvelope:
    """The error for a call that was cut after `tokens` tokens of output. It may be repeated, but not as it was."""
    limit = f"after {tokens} tokens, its limit," if tokens else "at its output limit,"
    return ErrorEnvelope.transient(
        ErrorCategory.VALIDATION,
        tool,
        f"Your answer was cut {limit} inside this call. The call was not carried out.",
        hint="Write less at once: call the tool with shorter arguments, or do the work in several calls.",
    )


def ruling_of(
    rules: Sequence[CarriedRule], tool: str, actor: str | None, planned: Sequence[str] = ()
) -> PermissionRuling | None:
    """The ruling on a call of `tool` that runs `actor`, and has the Actors `planned` run later on.

    It is the strictest of all names of the call; None when no rule matches.
    """
    names = (*_names(tool, actor), *(name for later in planned for name in _names(tool, later)))
    found = [rule for name in dict.fromkeys(names) if (rule := _first(rules, name)) is not None]
    return PermissionRuling.strictest(found, normalised_actor(actor) if actor else None)


def nameless_actor(rules: Sequence[CarriedRule], tool: str, actor: str | None) -> ErrorEnvelope | None:
    """The error for an Actor given by its id where rules name Actors: an id must not evade a rule on the name."""
    if not rules or actor is None or "/" in normalised_actor(split_actor_tool(actor)[0]):
        return None
    return ErrorEnvelope.permanent(
        ErrorCategory.VALIDATION,
        tool,
        f"{actor!r} is not the full name of an Actor; this server's permissions depend on the name.",
        hint="Call again with the Actor's full name, `user/name`.",
    )


def planned_actors(tool: TurnTool, arguments: JsonObject) -> tuple[str, ...]:
    """The Actors that a call has run later on, as they were named."""
    return tuple(str(actor) for place in tool.planned_actors for actor in values_at(arguments, place))


def nameless_plan(rules: Sequence[CarriedRule], tool: TurnTool, arguments: JsonObject) -> ErrorEnvelope | None:
    """The error for what is run later on, or by a saved task, where rules name Actors and the call does not."""
    if rules and any(True for place in tool.planned_tasks for _ in values_at(arguments, place)):
        return ErrorEnvelope.permanent(
            ErrorCategory.PERMISSION,
            tool.name,
            "A saved task does not name the Actor that it runs, and this server's permissions depend on the Actor.",
            hint="Use the Actor itself, by its full name `user/name`.",
        )
    found = (nameless_actor(rules, tool.name, actor) for actor in planned_actors(tool, arguments))
    return next((error for error in found if error is not None), None)


def _names(tool: str, actor: str | None) -> tuple[str, ...]:
    if actor is None:
        return (tool,)
    name, mcp_tool = split_actor_tool(actor)
    full_name = normalised_actor(name)
    proxied = (proxied_tool_name(full_name, mcp_tool),) if mcp_tool else ()
    return (tool, actor_tool_name(full_name), *proxied)


def _first(rules: Sequence[CarriedRule], name: str) -> CarriedRule | None:
    """The first rule that matches `name`, in any case of letters: the platform accepts any."""
    return next((rule for rule in rules if fnmatchcase(name.casefold(), rule.tool.casefold())), None)
