"""Admission: decides whether a tool call may start, before anything is started or paid for, and who may approve it.

The result is the call in the form that the history of a workflow may hold.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import uuid4

from pydantic import SecretStr

from outlast.activities.contracts import Caller, CallPayment, JsonObject, SealedSecret, Violation
from outlast.activities.json_schema.checker import SchemaChecker
from outlast.activities.json_schema.coercion import MAX_CHANGES, Coerced, coerced
from outlast.activities.json_values import text_of
from outlast.activities.secrets import SecretSealer
from outlast.activities.unicode_text import NOTE, REPLACEMENT
from outlast.api.access.permissions import CallName, PermissionRules, approver_words, forbidden, ids_in, patterns_of
from outlast.api.access.policy.source import PolicySource
from outlast.api.access.principal import Principal
from outlast.api.audit.log import AuditLog
from outlast.api.audit.records import AuditEvent
from outlast.api.catalog.builtin_tools import AbsentTools
from outlast.api.catalog.catalog import CalledActor, Catalogue, MaskGate, narrowed, planned_actors, standby_refusal
from outlast.api.errors import ApproverNeeded, InvalidCall, UnknownToolCalled, UnpaidCall
from outlast.api.http.request_body import TEXT_WAS_REPLACED
from outlast.api.settings import ApiSettings
from outlast.api.tasks import arguments as call_arguments
from outlast.api.tasks.option_rules import ResurrectRules, Reusable, ReuseRules, check_until, may_reuse
from outlast.api.tasks.recorded_arguments import seal_arguments, seal_edited_arguments
from outlast.api.webhooks.client import Listeners
from outlast.contracts.tasks import ConnectedTaskRequest, Task, TaskRequest
from outlast.workflows.contracts.questions import InputRequest
from outlast.workflows.contracts.tool_calls import (
    CallOptions,
    CarriedRule,
    InnerCalls,
    PermissionRuling,
    ServerCall,
    TaskStatus,
    TaskSummary,
    ToolCall,
)
from outlast.workflows.tools.core.actor_names import split_actor_tool
from outlast.workflows.tools.core.payments import misplaced_payment, standby_unpayable, unpayable
from outlast.workflows.tools.framework.calls import INNER_MODE
from outlast.workflows.tools.framework.ids import MAX_ID_CHARS
from outlast.workflows.tools.framework.tool import Category, Tool
from outlast.workflows.tools.registry import admitted_tool, executor_kind

_READ_QUICKLY = frozenset({Category.ACTORS, Category.RUNS, Category.STORAGE, Category.UI})


@dataclass(frozen=True)
class AdmittedCall:
    """A call that may start."""

    call: ToolCall
    summary: TaskSummary
    """The content of the task's memo, with one of `fingerprints`."""
    fingerprints: tuple[str, ...]
    """Any of them identifies a repetition of the request under the same idempotency key."""
    reuse: Reusable | None
    """The rule by which identical calls may answer it; None if none may."""
    is_quick: bool
    """True if it most likely ends within its first step, because it only reads from the platform."""


@dataclass(eq=False)
class Admission:
    """Checks calls and encrypts their secrets. Starts nothing."""

    catalogue: Catalogue
    sealer: SecretSealer
    settings: ApiSettings
    policy: PolicySource
    audit: AuditLog
    listeners: Listeners

    def __post_init__(self) -> None:
        self.approvers = Approvers(self.policy)
        self._masks = MaskGate(self.settings)
        self._absent = AbsentTools(self.catalogue.builtin, self.policy)
        self._checker = SchemaChecker(seconds=self.settings.schema_check_seconds)

    async def admit(self, caller: Caller, request: TaskRequest) -> AdmittedCall:
        """Check the call of a request and encrypt its secrets.

        Raises `UnknownToolCalled`, `MaskedToolCalled`, `InvalidCall`, `Unauthenticated`, and `PlatformUnavailable` if
        an Actor cannot be looked up.
        """
        given = _from_connection(request)
        payment, offered = given.payment, given.offered_tools
        # Which tool is it?
        mode = request.mode or self.settings.mode
        mask = self._masks.effective(request.tool_mask)
        tool = await self._find_tool(caller, mode, request.tool, mask)

        # May the caller call it? An operator's `ask` or `deny` travels with the call: its workflow acts on it.
        self._masks.admit(tool.name, mask, offered or await self._offered_names(caller, mode, mask))
        _refuse_front_door_tool(tool, offered)

        # Does the call fit?
        asked = request.model_copy(update={"arguments": call_arguments.without_wait(tool, mode, request.arguments)})
        request, changes, actor = await self._coerced(caller, tool, asked)
        _check_payment(tool, request.arguments, None if given.names_payer else payment, actor)
        _check_standby(mode, tool, None if given.names_payer else actor)
        await self._check_of(caller).of_call(tool, request.arguments, actor)
        check_until(request.options.until, tool, actor)
        _check_paid(tool, given, actor)
        permission = await self._permission(caller, tool, request.arguments, actor, session_id=request.session_id)
        conversation = request.session_id or given.connection
        inner = await self._inner_calls(caller, tool, conversation)

        # May an identical call answer it? Which webhooks are notified? May a run that is cut short be resurrected?
        reuse = self._reuse(caller, request, tool, mode, actor, permission, is_paid=payment is not None)
        listeners = await self.listeners.of_call(caller, request.options.webhooks)
        options = self._options(caller, request.options, tool, actor, is_paid=payment is not None)

        # Seal the secrets. From here on, none of them is readable.
        paid = self.sealer.seal(payment, purpose=caller.id) if payment is not None else None
        call = ToolCall(
            tool=tool.name,
            arguments=seal_arguments(tool, request.arguments, actor, self.sealer, caller),
            mode=mode,
            caller=_paying(caller, given, paid),
            changes=changes,
            session_id=request.session_id,
            message_id=request.message_id,
            tool_call_id=request.tool_call_id,
            output=self.settings.output_policy(request.options.output),
            actor=tool.actor,
            run_memory_mbytes=tool.run_memory_mbytes,
            payment=None if given.names_payer else paid,
            pays_with=given.pays_with,
            offered_tools=offered,
            tool_mask=mask,
            permission=permission,
            has_approval=tool.approval is not None,
            admitted_tool=admitted_tool(tool),
            caps=self.policy.caps_of(caller.id),
            schedule_id=given.schedule_id,
            listeners=listeners,
            inner=inner,
            options=options,
            server=_server_call(tool, caller, conversation),
        )
        fingerprints = self._fingerprints(call, request)
        quick = is_quick_read(tool) and (permission is None or permission.action == "allow") and not listeners
        summary = _summary(call, fingerprints[0]).model_copy(update={"again_of": given.again_of})
        return AdmittedCall(call, summary, fingerprints, reuse=reuse, is_quick=quick)

    async def _coerced(
        self, caller: Caller, tool: Tool, request: TaskRequest
    ) -> tuple[TaskRequest, tuple[str, ...], CalledActor | None]:
        """The request with arguments in the types of the schemas of tool and Actor, the changes, and the Actor."""
        own = coerced(tool.input_schema, request.arguments)
        actor = await self._called_actor(caller, tool, own.arguments, reuse=self._may_reuse(request, tool))
        read = call_arguments.with_coerced_input(
            tool, Coerced(call_arguments.with_plain_actor(tool, own.arguments, actor), own.changes), actor
        )
        changes = (*_from_connection(request).changes, *read.changes, *_replaced_text(request))
        changes = tuple(dict.fromkeys(changes))[:MAX_CHANGES]
        return request.model_copy(update={"arguments": read.arguments}), changes, actor

    async def admit_again(self, caller: Caller, call: ToolCall) -> AdmittedCall:
        """Check a call that has ended, and whose secrets are encrypted, by the current rules and spending limits.

        Raises `UnknownToolCalled`, and `PlatformUnavailable` if an Actor cannot be looked up.
        """
        tool = await self._find_tool(caller, call.mode, call.tool, call.tool_mask)
        actor = await self._called_actor(caller, tool, call.arguments)
        permission = await self._permission(caller, tool, call.arguments, actor, session_id=call.session_id)
        wanted = call.options.resurrect
        allowed = ResurrectRules(self.policy.current).allowed(caller, wanted, tool, actor, is_paid=call.is_paid)
        own = tuple(listener for listener in call.listeners if listener.is_own)
        again = call.model_copy(
            update={
                "caller": caller,
                "permission": permission,
                "inner": await self._inner_calls(caller, tool, call.inner.conversation if call.inner else None),
                "caps": self.policy.caps_of(caller.id),
                "listeners": (*await self.listeners.of_call(caller), *own),
                "options": call.options.model_copy(update={"resurrect": allowed}),
            }
        )
        fingerprints = self.sealer.digests([call.tool, call.mode, again.options.model_dump(mode="json")])
        return AdmittedCall(again, _summary(again, fingerprints[0]), fingerprints, reuse=None, is_quick=False)

    async def schema_of(self, caller: Caller, request: TaskRequest) -> JsonObject:
        """The JSON Schema of the arguments, with that of the Actor's input if it is known.

        Raises `UnknownToolCalled` and `PlatformUnavailable`.
        """
        tool, actor = await self._resolved(caller, request)
        if tool.actor is not None or actor is None or actor.input_schema is None:
            return tool.input_schema
        properties = tool.input_schema.get("properties")
        own = properties if isinstance(properties, dict) else {}
        return {**tool.input_schema, "properties": {**own, "input": actor.input_schema}}

    async def sealed_arguments(self, caller: Caller, request: TaskRequest) -> JsonObject:
        """The arguments with encrypted secrets, unchecked, because they may be the common part of several calls.

        Raises `UnknownToolCalled`, and `PlatformUnavailable` if an Actor cannot be looked up.
        """
        tool, actor = await self._resolved(caller, request)
        return seal_arguments(tool, request.arguments, actor, self.sealer, caller)

    async def _resolved(self, caller: Caller, request: TaskRequest) -> tuple[Tool, CalledActor | None]:
        tool = await self.catalogue.resolve(request.mode or self.settings.mode, request.tool, caller)
        return tool, await self._called_actor(caller, tool, request.arguments)

    async def admit_edited(self, caller: Caller, *, mode: str, tool: str, arguments: JsonObject) -> JsonObject:
        """Check and encrypt arguments that a person edited while approving a call.

        A masked value stands for the original, so it may break the schema and is not encrypted. Raises `InvalidCall`,
        also if a rule requires the approval of another caller: then a new call is needed.
        """
        found = await self.catalogue.resolve(mode, tool, caller)
        own = coerced(found.input_schema, arguments)
        actor = await self._called_actor(caller, found, own.arguments)
        arguments, _ = call_arguments.with_coerced_input(found, own, actor)
        await self._check_of(caller).of_edited(found, arguments, actor)
        permission = await self._ruling(caller, found, arguments, actor)
        if permission is not None and (permission.action == "deny" or permission.approvers):
            self._record_denial(caller, found, permission.rule, actor)
            raise InvalidCall(forbidden(found.name, caller.id, permission.rule))
        return seal_edited_arguments(found, arguments, actor, self.sealer, caller)

    async def answer_violations(
        self, caller: Caller, question: InputRequest, content: JsonObject
    ) -> tuple[Violation, ...]:
        """The violations in the content of an answer to an Actor's question."""
        return await call_arguments.checked(self._checker, question.requested_schema, content, caller.id)

    def check_front_door_tool(self, caller: Caller, tool: Tool) -> None:
        """Raise `InvalidCall` unless the rules allow a tool that the entry point answers locally.

        No workflow could ask for approval, so the rule `ask` rejects the call too.
        """
        ruling = self._permissions.ruling(caller.id, (CallName(tool.name, tags=tool.tags),))
        if ruling is not None and ruling.action != "allow":
            self._record_denial(caller, tool, ruling.rule)
            raise InvalidCall(forbidden(tool.name, caller.id, ruling.rule))

    def _record_denial(
        self, caller: Caller, tool: Tool, rule: str, actor: CalledActor | None = None, *, session_id: str | None = None
    ) -> None:
        self.audit.record_now(
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
        """The ruling of the operator's rules. A denial is audited here, and applied by the call's workflow."""
        ruling = await self._ruling(caller, tool, arguments, actor)
        if ruling is not None and ruling.action == "deny":
            self._record_denial(caller, tool, ruling.rule, actor, session_id=session_id)
        return ruling

    async def _ruling(
        self, caller: Caller, tool: Tool, arguments: JsonObject, actor: CalledActor | None
    ) -> PermissionRuling | None:
        if tool.server is not None:
            return tool.server.ruling(self._permissions.ruling_of_call(caller.id, tool, None))
        if (tool.planned_actors or tool.planned_tasks) and self._permissions:
            planned = await planned_actors(self.catalogue, tool, arguments, caller)
            return self._permissions.ruling_of_plan(caller.id, tool, [(one.name, one.actor_id) for one in planned])
        if actor is None:
            return self._permissions.ruling_of_call(caller.id, tool, None)
        return self._permissions.ruling_of_call(caller.id, tool, actor.name, actor.actor_id)

    async def _inner_calls(self, caller: Caller, tool: Tool, conversation: str | None) -> InnerCalls | None:
        """Return the rules for calls that the tool's function makes, which are those of this call."""
        if not tool.calls_tools:
            return None
        builtin = self.catalogue.builtin
        offered = None if builtin.names is None else tuple(sorted(builtin.offered(INNER_MODE).tools))
        rules = await carried_rules(self._permissions, caller, self.catalogue)
        return InnerCalls(rules=rules, builtin_tools=offered, conversation=conversation)

    @property
    def _permissions(self) -> PermissionRules:
        return PermissionRules.of(self.policy.current)

    def _check_of(self, caller: Caller) -> call_arguments.ArgumentCheck:
        return call_arguments.ArgumentCheck(self._checker, caller.id)

    async def _find_tool(self, caller: Caller, mode: str, name: str, mask: Mapping[str, bool] | None) -> Tool:
        try:
            return await self.catalogue.resolve(mode, name, caller)
        except UnknownToolCalled as error:
            envelope = narrowed(error.envelope, mask)
            raise UnknownToolCalled(self._absent.explained(envelope, name, mode, caller)) from error

    async def _offered_names(self, caller: Caller, mode: str, mask: Mapping[str, bool] | None) -> tuple[str, ...]:
        """The tools that an error about the mask may name, for a client to which all are offered."""
        if mask is None:
            return ()
        return tuple((await self.catalogue.tools(mode, caller)).tools)

    async def _called_actor(
        self, caller: Caller, tool: Tool, arguments: JsonObject, *, reuse: bool = False
    ) -> CalledActor | None:
        """The Actor that the call runs. Permission rules need its full name, and reuse its build."""
        by_full_name = reuse or bool(self._permissions)
        return await self.catalogue.called_actor(tool, arguments, caller, by_full_name=by_full_name)

    def _may_reuse(self, request: TaskRequest, tool: Tool) -> bool:
        given = _from_connection(request)
        if given.schedule_id is not None or given.again_of is not None:
            return False  # A schedule exists to repeat a call.
        if request.options.webhooks:
            return False  # The webhooks of one task are not notified of another.
        return request.options.reuse is not None or tool.reuse is not None or bool(self.policy.current.reuse)

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
        if not self._may_reuse(request, tool) or not may_reuse(permission):
            return None
        rules = ReuseRules(self.policy.current, self.sealer)
        age = rules.age_for(caller, request, tool, actor, is_paid=is_paid)
        return None if age is None else rules.reusable(caller, request, tool, mode, actor, age)

    def _options(
        self, caller: Caller, asked: CallOptions, tool: Tool, actor: CalledActor | None, *, is_paid: bool
    ) -> CallOptions:
        """The options for the workflow, without those that were applied here."""
        resurrect = ResurrectRules(self.policy.current).allowed(caller, asked.resurrect, tool, actor, is_paid=is_paid)
        seconds = self.settings.run_heartbeat_seconds
        changes = {
            "budget": asked.budget.at_most(tool.budget_usd),
            "run_heartbeat_seconds": seconds,
            "reuse": None,
            "webhooks": (),
            "resurrect": resurrect,
        }
        return asked.model_copy(update=changes)

    def _fingerprints(self, call: ToolCall, request: TaskRequest) -> tuple[str, ...]:
        """Digests of the whole request, one per sealing key. They are keyed because the request may hold secrets.

        The mask is excluded: a request repeated after masks were switched on or off is the same request.
        """
        left_out = {"tool": True, "mode": True, "tool_mask": True, "arguments": True, "options": {"webhooks"}}
        content = request.model_dump(mode="json", exclude=left_out)
        if request.options.webhooks:
            content["webhooks"] = [one.in_the_clear for one in request.options.webhooks]
        # Arguments are JSON already, and dumping large ones would block the event loop.
        content["arguments"] = request.arguments
        return self.sealer.digests([call.tool, call.mode, content])


async def carried_rules(rules: PermissionRules, caller: Caller, catalogue: Catalogue) -> tuple[CarriedRule, ...]:
    """The operator's rules that apply to `caller`, for calls in a turn or by a function, Actors by name.

    Raises `PlatformUnavailable` if the name of an Actor cannot be looked up by its id.
    """
    own = PermissionRules(tuple(rule for rule in rules.rules if rule.fits_caller(caller.id)))
    names = await catalogue.full_names(ids_in(own), caller)
    return tuple(
        CarriedRule(tool=pattern, action=rule.action, text=rule.text, approver=rule.approver)
        for rule in own.rules
        for pattern in patterns_of(rule, names)
    )


def is_quick_read(tool: Tool) -> bool:
    """Return whether a call of `tool` only reads from the platform, see `workflows/handler_api/activity_calls.py`.

    The API process runs such calls, so tools of other packages are excluded.
    """
    reads = tool.annotations.read_only and tool.category in _READ_QUICKLY and not tool.runs_actor
    # Plain functions, and parts before and after a client's, have a handler of Outlast's around them.
    own = not tool.functions and tool.client is None and tool.handler.__module__.startswith("outlast.")
    return reads and own


def _from_connection(request: TaskRequest) -> ConnectedTaskRequest:
    """The facts of a call that come from its connection: its payment, and the tools that the client is offered."""
    return request if isinstance(request, ConnectedTaskRequest) else ConnectedTaskRequest(tool=request.tool)


def _paying(caller: Caller, given: ConnectedTaskRequest, payment: SealedSecret | None) -> Caller:
    """The caller of the platform's requests: with the payment if all requests are made as the payer."""
    if payment is None or not given.names_payer or given.pays_with is None:
        return caller
    return caller.model_copy(update={"payment": CallPayment(protocol=given.pays_with, secret=payment)})


def _server_call(tool: Tool, caller: Caller, conversation: str | None) -> ServerCall | None:
    """What the call of a tool of an MCP server needs to know; None for other tools."""
    if tool.server is None:
        return None
    return tool.server.for_call(caller_id=caller.id, conversation=conversation, task=uuid4().hex)


def _check_paid(tool: Tool, given: ConnectedTaskRequest, actor: CalledActor | None) -> None:
    """Refuse a call without a required payment, and a call that no payment can pay for."""
    if given.names_payer and actor is not None and actor.is_standby:
        raise InvalidCall(standby_unpayable(tool.name, split_actor_tool(actor.name)[0]))
    if given.unpaid is not None:
        raise UnpaidCall(given.unpaid, given.terms)


def _replaced_text(request: TaskRequest) -> tuple[str, ...]:
    """The note for a call whose arguments came with invalid Unicode."""
    has_replacement = TEXT_WAS_REPLACED.get() and REPLACEMENT.encode() in text_of(request.arguments)
    return (NOTE.rstrip("."),) if has_replacement else ()


def _check_standby(mode: str, tool: Tool, actor: CalledActor | None) -> None:
    """Refuse to run an Actor that only serves requests, in a mode that does not run such Actors."""
    refusal = standby_refusal(mode, tool.name, actor) if actor is not None and tool.actor is None else None
    if refusal is not None:
        raise InvalidCall(refusal)


def _refuse_front_door_tool(tool: Tool, offered: tuple[str, ...]) -> None:
    if tool.in_front:
        message = f"{tool.name} manages tasks, so it cannot run as a task."
        raise call_arguments.invalid_call(tool.name, message, "Use the endpoints under /v1/tasks, or call it over MCP.")
    if tool.needs_connection and tool.name not in offered:
        message = f"{tool.name} changes the tools of an MCP connection, and this call does not come from one."
        raise call_arguments.invalid_call(
            tool.name, message, "Call the Actor with call-actor, or as the tool `user--name`."
        )


def _check_payment(tool: Tool, arguments: JsonObject, payment: SecretStr | None, actor: CalledActor | None) -> None:
    """Refuse a payment that would not pay for the call."""
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
        # No Actor has a longer name, and Temporal refuses search attributes that are too long.
        actor=call.actor or (actor[:MAX_ID_CHARS] if isinstance(actor, str) else None),
        session_id=call.session_id,
        fingerprint=fingerprint,
        resurrects=call.resurrects.task_id if call.resurrects else None,
        admitted_tool=call.admitted_tool,
        created_at=datetime.now(UTC),
    )


class Approvers:
    """Approvers of other callers' calls, by the roles in the policy."""

    def __init__(self, policy: PolicySource) -> None:
        self._policy = policy

    def roles_of(self, principal: Principal) -> frozenset[str]:
        """The caller's roles; empty for a key that may not approve."""
        return self._policy.of(principal.caller.id).roles if "approve" in principal.scopes else frozenset()

    def view_of(self, principal: Principal, maker: str | None, task: Task) -> Task | None:
        """The task of `maker` with the approvals that the caller can give. None if there are none."""
        roles = self.roles_of(principal)
        if maker is None or maker == principal.caller.id or task.finished_at is not None or not roles:
            return None
        waiting = {
            key: question
            for key, question in (task.input_requests or {}).items()
            if question.approvers and roles.issuperset(question.approvers)
        }
        return _as_approver_sees(task, waiting) if waiting else None


def require_approver(principal: Principal, maker: str | None, question: InputRequest) -> None:
    """Raise `ApproverNeeded` if another caller than `maker` has to approve."""
    if question.approvers and principal.caller.id == maker:
        approver = approver_words(question.approvers)
        message = f"You cannot approve your own calls: {approver} must, and sees them in GET /v1/handoffs."
        raise ApproverNeeded(message)


def after_approval(task: Task) -> Task:
    """`task` as an approver sees it once it has the answer."""
    return task.model_copy(update={"status": TaskStatus.WORKING, "input_requests": None})


def _as_approver_sees(task: Task, questions: Mapping[str, InputRequest]) -> Task:
    """The task without its session, run, costs, messages and outputs."""
    return Task(
        id=task.id,
        tool=task.tool,
        status=TaskStatus.INPUT_REQUIRED,
        mode=task.mode,
        executor=task.executor,
        actor=task.actor,
        created_at=task.created_at,
        input_requests=dict(questions),
    )
