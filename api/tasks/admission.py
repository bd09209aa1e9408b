"""Admission: decides whether a tool call may start, before anything is started or paid for.

`Admission.admit` reads from top to bottom: find the tool; check that the caller may call it; check that the call fits,
and is paid for; decide which identical calls may answer it, and which webhooks are notified; encrypt its secrets. The
result is the call in the form that the history of a workflow may hold.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from pydantic import SecretStr

from outlast.activities.contracts import Caller, CallPayment, JsonObject, SealedSecret
from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope, Violation
from outlast.activities.json_schema.checker import SchemaChecker
from outlast.activities.json_schema.coercion import MAX_CHANGES, Coerced, coerced
from outlast.activities.json_values import text_of
from outlast.activities.secrets.encryption import SecretSealer
from outlast.activities.unicode_text import NOTE, REPLACEMENT
from outlast.api.access.permissions import CallName, PermissionRules, forbidden
from outlast.api.access.policy.source import PolicySource
from outlast.api.audit.contracts import AuditEvent
from outlast.api.audit.log import AuditLog
from outlast.api.catalog.catalog import CalledActor, Catalogue, MaskGate, narrowed, planned_actors, standby_refusal
from outlast.api.errors import InvalidCall, UnknownToolCalled, UnpaidCall
from outlast.api.http.json_limits import TEXT_WAS_REPLACED
from outlast.api.settings import ApiSettings
from outlast.api.tasks.approvers import Approvers
from outlast.api.tasks.arguments import ArgumentCheck, checked, with_coerced_input, with_plain_actor, without_wait
from outlast.api.tasks.option_rules import ResurrectRules, Reusable, ReuseRules, check_until, may_reuse
from outlast.api.tasks.sealing import seal_arguments, seal_edited_arguments
from outlast.api.webhooks.listeners import Listeners
from outlast.contracts.tasks import ConnectedTaskRequest, TaskRequest
from outlast.workflows.contracts.questions import InputRequest
from outlast.workflows.contracts.tool_calls import CallOptions, PermissionRuling, TaskSummary, ToolCall
from outlast.workflows.tools.core.actor_names import split_actor_tool
from outlast.workflows.tools.core.payments import misplaced_payment, standby_unpayable, unpayable
from outlast.workflows.tools.framework.ids import MAX_ID_CHARS
from outlast.workflows.tools.framework.tool import Category, Tool
from outlast.workflows.tools.registry import executor_kind

_READ_QUICKLY = frozenset({Category.ACTORS, Category.RUNS, Category.STORAGE, Category.UI})


@dataclass(frozen=True)
class AdmittedCall:
    """A call that may start.

    `summary` goes into the task's memo and contains one of `fingerprints`. Any of them identifies a repetition of the
    request under the same idempotency key.
    """

    call: ToolCall
    summary: TaskSummary
    fingerprints: tuple[str, ...]
    reuse: Reusable | None
    """The rule by which identical calls may answer it; None if none may."""
    is_quick: bool
    """Whether it most likely ends within its first step: it reads something of the platform, and nobody is asked."""


class Admission:
    """Checks calls and seals their secrets. Starts nothing."""

    def __init__(
        self,
        catalogue: Catalogue,
        sealer: SecretSealer,
        settings: ApiSettings,
        policy: PolicySource,
        audit: AuditLog,
        listeners: Listeners,
    ) -> None:
        """Apply the rules of the `policy` in force, and the limits and defaults of `settings`.

        What a rule denies goes to `audit`. Calls carry which webhooks hear of them, by `listeners`.
        """
        self.approvers = Approvers(policy)
        self._audit = audit
        self.listeners = listeners
        self._catalogue = catalogue
        self._sealer = sealer
        self._settings = settings
        self._policy = policy
        self._masks = MaskGate(settings)
        self._checker = SchemaChecker(seconds=settings.schema_check_seconds)

    async def admit(self, caller: Caller, request: TaskRequest) -> AdmittedCall:
        """The call that `request` asks for, checked and sealed.

        Raises `UnknownToolCalled`, `MaskedToolCalled`, `InvalidCall`, `Unauthenticated`, and `PlatformUnavailable`
        when an Actor has to be looked up and cannot be.
        """
        given = _from_connection(request)
        payment, offered = given.payment, given.offered_tools
        # Which tool is it?
        mode = request.mode or self._settings.mode
        mask = self._masks.effective(request.tool_mask)
        tool = await self._find_tool(caller, mode, request.tool, mask)

        # May the caller call it? An operator's `ask` or `deny` travels with the call: its workflow acts on it.
        self._masks.admit(tool.name, mask, offered or await self._offered_names(caller, mode, mask))
        _refuse_front_door_tool(tool, offered)

        # Does the call fit?
        asked = _with_arguments(request, without_wait(tool, mode, request.arguments))
        request, changes, actor = await self._as_schemas_read(caller, tool, asked)
        _check_payment(tool, request.arguments, None if given.names_payer else payment, actor)
        _check_standby(mode, tool, None if given.names_payer else actor)
        await self._check_of(caller).of_call(tool, request.arguments, actor)
        check_until(request.options.until, tool, actor)
        _check_paid(tool, given, actor)
        permission = await self._permission(caller, tool, request.arguments, actor, session_id=request.session_id)

        # May an identical call answer it? Which webhooks are notified? May a run that is cut short be resurrected?
        reuse = self._reuse(caller, request, tool, mode, actor, permission, is_paid=payment is not None)
        listeners = await self.listeners.of_call(caller, request.options.webhooks)
        options = self._options(caller, request.options, tool, actor, is_paid=payment is not None)

        # Seal the secrets. From here on, none of them is readable.
        paid = self._sealer.seal(payment, purpose=caller.id) if payment is not None else None
        call = ToolCall(
            tool=tool.name,
            arguments=seal_arguments(tool, request.arguments, actor, self._sealer, caller),
            mode=mode,
            caller=_paying(caller, given, paid),
            changes=changes,
            session_id=request.session_id,
            message_id=request.message_id,
            tool_call_id=request.tool_call_id,
            output=self._settings.output_policy(request.options.output),
            actor=tool.actor,
            run_memory_mbytes=tool.run_memory_mbytes,
            payment=None if given.names_payer else paid,
            pays_with=given.pays_with,
            offered_tools=offered,
            tool_mask=mask,
            permission=permission,
            caps=self._policy.caps_of(caller.id),
            schedule_id=given.schedule_id,
            listeners=listeners,
            options=options,
        )
        fingerprints = self._fingerprints(call, request)
        quick = is_quick_read(tool) and (permission is None or permission.action == "allow") and not listeners
        return AdmittedCall(call, _summary(call, fingerprints[0]), fingerprints, reuse=reuse, is_quick=quick)

    async def _as_schemas_read(
        self, caller: Caller, tool: Tool, request: TaskRequest
    ) -> tuple[TaskRequest, tuple[str, ...], CalledActor | None]:
        """The request with arguments as the schemas of tool and called Actor have them, the changes, and that Actor."""
        own = coerced(tool.input_schema, request.arguments)
        actor = await self._called_actor(caller, tool, own.arguments, reuse=self._may_reuse(request))
        read = with_coerced_input(tool, Coerced(with_plain_actor(tool, own.arguments, actor), own.changes), actor)
        changes = (*_from_connection(request).changes, *read.changes, *_replaced_text(request))
        changes = tuple(dict.fromkeys(changes))[:MAX_CHANGES]
        return request.model_copy(update={"arguments": read.arguments}), changes, actor

    async def admit_again(self, caller: Caller, call: ToolCall) -> AdmittedCall:
        """A call that was admitted before, and ended, under the rules and caps that hold now; its secrets are sealed.

        Raises `UnknownToolCalled`, and `PlatformUnavailable` when an Actor has to be looked up and cannot be.
        """
        tool = await self._find_tool(caller, call.mode, call.tool, call.tool_mask)
        actor = await self._called_actor(caller, tool, call.arguments)
        permission = await self._permission(caller, tool, call.arguments, actor, session_id=call.session_id)
        wanted = call.options.resurrect
        allowed = ResurrectRules(self._policy.current).allowed(caller, wanted, tool, actor, is_paid=call.is_paid)
        own = tuple(listener for listener in call.listeners if listener.is_own)
        again = call.model_copy(
            update={
                "caller": caller,
                "permission": permission,
                "caps": self._policy.caps_of(caller.id),
                "listeners": (*await self.listeners.of_call(caller), *own),
                "options": call.options.model_copy(update={"resurrect": allowed}),
            }
        )
        fingerprints = self._sealer.digests([call.tool, call.mode, again.options.model_dump(mode="json")])
        return AdmittedCall(again, _summary(again, fingerprints[0]), fingerprints, reuse=None, is_quick=False)

    async def schema_of(self, caller: Caller, request: TaskRequest) -> JsonObject:
        """The JSON Schema of the arguments of such calls, with that of the Actor's input where it is known.

        Raises `UnknownToolCalled` and `PlatformUnavailable`.
        """
        tool = await self._catalogue.resolve(request.mode or self._settings.mode, request.tool, caller)
        actor = await self._called_actor(caller, tool, request.arguments)
        if tool.actor is not None or actor is None or actor.input_schema is None:
            return tool.input_schema
        properties = tool.input_schema.get("properties")
        own = properties if isinstance(properties, dict) else {}
        return {**tool.input_schema, "properties": {**own, "input": actor.input_schema}}

    async def sealed_arguments(self, caller: Caller, request: TaskRequest) -> JsonObject:
        """The arguments with their secrets sealed, unchecked: they may be the common part of several calls.

        Raises `UnknownToolCalled`, and `PlatformUnavailable` when an Actor has to be looked up and cannot be.
        """
        tool = await self._catalogue.resolve(request.mode or self._settings.mode, request.tool, caller)
        actor = await self._called_actor(caller, tool, request.arguments)
        return seal_arguments(tool, request.arguments, actor, self._sealer, caller)

    async def admit_edited(self, caller: Caller, *, mode: str, tool: str, arguments: JsonObject) -> JsonObject:
        """Arguments that a person edited while approving a call, checked and sealed like those of a new call.

        A masked value stands for the original, so it may break the schema and is not sealed. Raises `InvalidCall`, also
        where a rule has another caller approve such a call: a new call is needed.
        """
        found = await self._catalogue.resolve(mode, tool, caller)
        own = coerced(found.input_schema, arguments)
        actor = await self._called_actor(caller, found, own.arguments)
        arguments, _ = with_coerced_input(found, own, actor)
        await self._check_of(caller).of_edited(found, arguments, actor)
        permission = await self._ruling(caller, found, arguments, actor)
        if permission is not None and (permission.action == "deny" or permission.approvers):
            self._record_denial(caller, found, permission.rule, actor)
            raise InvalidCall(forbidden(found.name, caller.id, permission.rule))
        return seal_edited_arguments(found, arguments, actor, self._sealer, caller)

    async def answer_violations(
        self, caller: Caller, question: InputRequest, content: JsonObject
    ) -> tuple[Violation, ...]:
        """The violations in an answer's content, for a question of an Actor: its schema is one of the outside world."""
        return await checked(self._checker, question.requested_schema, content, caller.id)

    def check_front_door_tool(self, caller: Caller, tool: Tool) -> None:
        """Raise `InvalidCall` unless the rules allow a tool that the entry point answers locally.

        No workflow could ask, so a rule that says `ask` rejects the call too.
        """
        ruling = self._permissions.ruling(caller.id, (CallName(tool.name),))
        if ruling is not None and ruling.action != "allow":
            self._record_denial(caller, tool, ruling.rule)
            raise InvalidCall(forbidden(tool.name, caller.id, ruling.rule))

    def _record_denial(
        self,
        caller: Caller,
        tool: Tool,
        rule: str,
        actor: CalledActor | None = None,
        *,
        session_id: str | None = None,
    ) -> None:
        self._audit.record_now(
            AuditEvent.PERMISSION_REFUSED,
            outcome="denied",
            caller=caller.id,
            tool=tool.name,
            actor=actor.name if actor else None,
            session=session_id,
            detail=rule,
        )

    async def _permission(
        self, caller: Caller, tool: Tool, arguments: JsonObject, actor: CalledActor | None, *, session_id: str | None
    ) -> PermissionRuling | None:
        """What the operator's rules say about the call. A denial is audited, and carried out by the call's workflow."""
        ruling = await self._ruling(caller, tool, arguments, actor)
        if ruling is not None and ruling.action == "deny":
            self._record_denial(caller, tool, ruling.rule, actor, session_id=session_id)
        return ruling

    async def _ruling(
        self, caller: Caller, tool: Tool, arguments: JsonObject, actor: CalledActor | None
    ) -> PermissionRuling | None:
        if (tool.planned_actors or tool.planned_tasks) and self._permissions:
            planned = await planned_actors(self._catalogue, tool, arguments, caller)
            return self._permissions.ruling_of_plan(caller.id, tool, [(one.name, one.actor_id) for one in planned])
        if actor is None:
            return self._permissions.ruling_of_call(caller.id, tool, None)
        return self._permissions.ruling_of_call(caller.id, tool, actor.name, actor.actor_id)

    @property
    def _permissions(self) -> PermissionRules:
        return PermissionRules.of(self._policy.current)

    def _check_of(self, caller: Caller) -> ArgumentCheck:
        return ArgumentCheck(self._checker, caller.id)

    async def _find_tool(self, caller: Caller, mode: str, name: str, mask: Mapping[str, bool] | None) -> Tool:
        try:
            return await self._catalogue.resolve(mode, name, caller)
        except UnknownToolCalled as error:
            raise UnknownToolCalled(narrowed(error.envelope, mask)) from error

    async def _offered_names(self, caller: Caller, mode: str, mask: Mapping[str, bool] | None) -> tuple[str, ...]:
        """The tools that an error about the mask may name, for a client that is offered all."""
        if mask is None:
            return ()
        return tuple((await self._catalogue.tools(mode, caller)).tools)

    async def _called_actor(
        self, caller: Caller, tool: Tool, arguments: JsonObject, *, reuse: bool = False
    ) -> CalledActor | None:
        """The Actor that the call runs. Permission rules need the full name, and reuse the build: it must be known."""
        known = reuse or bool(self._permissions)
        return await self._catalogue.called_actor(tool, arguments, caller, by_full_name=known)

    def _may_reuse(self, request: TaskRequest) -> bool:
        if _from_connection(request).schedule_id is not None:
            return False  # a schedule is there to have something done again
        if request.options.webhooks:
            return False  # Who is told of one task is not told of another.
        return request.options.reuse is not None or bool(self._policy.current.reuse)

    def _reuse(
        self,
        caller: Caller,
        request: TaskRequest,
        tool: Tool,
        mode: str,
        actor: CalledActor | None,
        permission: PermissionRuling | None,
        *,
        is_paid: bool,
    ) -> Reusable | None:
        if not self._may_reuse(request) or not may_reuse(permission):
            return None
        rules = ReuseRules(self._policy.current, self._sealer)
        age = rules.age_for(caller, request, tool, actor, is_paid=is_paid)
        return None if age is None else rules.reusable(caller, request, tool, mode, actor, age)

    def _options(
        self, caller: Caller, asked: CallOptions, tool: Tool, actor: CalledActor | None, *, is_paid: bool
    ) -> CallOptions:
        """The options with which the call is carried out: what the door has decided is left out."""
        rules = ResurrectRules(self._policy.current)
        changes = {
            "run_heartbeat_seconds": self._settings.run_heartbeat_seconds,
            "reuse": None,
            "webhooks": (),
            "resurrect": rules.allowed(caller, asked.resurrect, tool, actor, is_paid=is_paid),
        }
        return asked.model_copy(update=changes)

    def _fingerprints(self, call: ToolCall, request: TaskRequest) -> tuple[str, ...]:
        """Digests that distinguish this request from another one under the same idempotency key.

        They are keyed because the request may hold secrets. They cover the whole request because it is not always known
        which parts are secret. There is one per sealing key because keys are rotated. The mask is excluded: it does not
        change what the call does, and a request repeated after masks were switched on or off is the same request.
        """
        left_out = {"tool": True, "mode": True, "tool_mask": True, "arguments": True, "options": {"webhooks"}}
        content = request.model_dump(mode="json", exclude=left_out)
        if request.options.webhooks:
            content["webhooks"] = [one.in_the_clear for one in request.options.webhooks]
        # They are JSON already: dumping the largest ones would hold the event loop for as long as parsing them.
        content["arguments"] = request.arguments
        return self._sealer.digests([call.tool, call.mode, content])


def is_quick_read(tool: Tool) -> bool:
    """Whether a call of `tool` reads something of the platform, see `workflows/handler_api/activity_calls.py`.

    Tools of other packages are none: what they do is not known, and the API's event loop would do it.
    """
    reads = tool.annotations.read_only and tool.category in _READ_QUICKLY and not tool.runs_actor
    # Plain functions, and parts before and after a client's, have a handler of Outlast's around them.
    own = not tool.functions and tool.client is None and tool.handler.__module__.startswith("outlast.")
    return reads and own


def _from_connection(request: TaskRequest) -> ConnectedTaskRequest:
    """The facts of a call that only a connection has: its payment, and the tools that the client is offered."""
    return request if isinstance(request, ConnectedTaskRequest) else ConnectedTaskRequest(tool=request.tool)


def _paying(caller: Caller, given: ConnectedTaskRequest, payment: SealedSecret | None) -> Caller:
    """The caller of the platform's requests: with the payment, where all requests are made as the payer."""
    if payment is None or not given.names_payer or given.pays_with is None:
        return caller
    return caller.model_copy(update={"payment": CallPayment(protocol=given.pays_with, secret=payment)})


def _check_paid(tool: Tool, given: ConnectedTaskRequest, actor: CalledActor | None) -> None:
    """Refuse a call that has no payment and needs one, and one that no payment pays for."""
    if given.names_payer and actor is not None and actor.is_standby:
        raise InvalidCall(standby_unpayable(tool.name, split_actor_tool(actor.name)[0]))
    if given.unpaid is not None:
        raise UnpaidCall(given.unpaid, given.terms)


def _replaced_text(request: TaskRequest) -> tuple[str, ...]:
    """The note for a call whose arguments came with invalid Unicode."""
    has_replacement = TEXT_WAS_REPLACED.get() and REPLACEMENT.encode() in text_of(request.arguments)
    return (NOTE.rstrip("."),) if has_replacement else ()


def _with_arguments(request: TaskRequest, arguments: JsonObject) -> TaskRequest:
    return request.model_copy(update={"arguments": arguments})


def _check_standby(mode: str, tool: Tool, actor: CalledActor | None) -> None:
    """Refuse to run an Actor that only serves requests, in a mode that does not run such."""
    refusal = standby_refusal(mode, tool.name, actor) if actor is not None and tool.actor is None else None
    if refusal is not None:
        raise InvalidCall(refusal)


def _refuse_front_door_tool(tool: Tool, offered: tuple[str, ...]) -> None:
    if not tool.in_front and tool.needs_connection and tool.name not in offered:
        raise InvalidCall(
            ErrorEnvelope.permanent(
                ErrorCategory.VALIDATION,
                tool.name,
                f"{tool.name} changes the tools of an MCP connection; this call comes from none.",
                hint="Call the Actor with call-actor, or as the tool `user--name`.",
            )
        )
    if not tool.in_front:
        return
    raise InvalidCall(
        ErrorEnvelope.permanent(
            ErrorCategory.VALIDATION,
            tool.name,
            f"{tool.name} manages tasks, so it cannot run as a task.",
            hint="Use the endpoints under /v1/tasks, or call it over MCP.",
        )
    )


def _check_payment(tool: Tool, arguments: JsonObject, payment: SecretStr | None, actor: CalledActor | None) -> None:
    """Refuse a payment where it would not pay for the call."""
    error = misplaced_payment(tool.name, tool.input_schema, arguments)
    if payment is not None and actor is not None and split_actor_tool(actor.name)[1] is not None:
        error = unpayable(tool.name, actor.name)
    if error is not None:
        raise InvalidCall(error)


def _summary(call: ToolCall, fingerprint: str) -> TaskSummary:
    executor = executor_kind(call)
    actor = call.arguments.get("actor") if executor != "none" else None
    return TaskSummary(
        tool=call.tool,
        mode=call.mode,
        executor=executor,
        # There is no Actor of a longer name, and Temporal refuses what is too long to be searched for.
        actor=call.actor or (actor[:MAX_ID_CHARS] if isinstance(actor, str) else None),
        session_id=call.session_id,
        fingerprint=fingerprint,
        resurrects=call.resurrects.task_id if call.resurrects else None,
        created_at=datetime.now(UTC),
    )
