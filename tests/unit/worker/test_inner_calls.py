"""Decisions on calls that a tool's function makes: offers, masks, payments, depth and budget."""

from typing import Any

import pytest
from pydantic import SecretStr

from docs.examples.hello_tools import hello_world
from outlast.activities.actors.activities import ActorDefinition
from outlast.activities.contracts import Caller, ErrorCategory, ErrorEnvelope
from outlast.activities.platform.apify_platform import ApifyPlatform
from outlast.activities.secrets import SecretSealer, open_values
from outlast.worker.inner_calls import InnerSecrets, decided, unknown_inner_tool
from outlast.workflows.contracts.steps import Wait
from outlast.workflows.contracts.tool_calls import CarriedRule, InnerCalls
from outlast.workflows.tools.framework.calls import INNER_MODE, MAX_DEPTH, InnerAdmission, InnerCallInput
from outlast.workflows.tools.framework.tool import Tool
from outlast.workflows.tools.registry import version_of_tool

OWN = hello_world.definition
ACTOR, ADD_ACTOR = (version_of_tool(INNER_MODE, name, None) for name in ("call-actor", "add-actor"))
RUN = {"actor": "outlast/sleeper", "input": {"seconds": 0}}


def decision(tool: Tool, arguments: dict[str, Any], inner: InnerCalls | None = None, **given: Any) -> InnerAdmission:
    request = InnerCallInput(
        tool=tool.name,
        arguments=arguments,
        caller_id="key:ann",
        called_from="shop",
        inner=inner or InnerCalls(),
        **given,
    )
    return decided(request, tool)


def refused(tool: Tool, arguments: dict[str, Any], inner: InnerCalls | None = None, **given: Any) -> ErrorCategory:
    refusal = decision(tool, arguments, inner, **given).refusal
    assert refusal is not None
    assert not refusal.retryable
    return refusal.category


def test_a_call_is_admitted_with_what_its_task_needs() -> None:
    admission = decision(ACTOR, RUN)
    assert admission.refusal is None
    assert (admission.tool, admission.arguments) == ("call-actor", RUN)
    assert (admission.executor, admission.actor, admission.is_function) == ("sync", "outlast/sleeper", False)


def test_a_value_of_another_kind_is_read_as_the_schema_wants_it() -> None:
    admission = decision(ACTOR, {**RUN, "input": '{"seconds": 0}'})
    assert admission.arguments["input"] == {"seconds": 0}


@pytest.mark.parametrize(("action", "tool"), [("deny", "outlast--sleeper"), ("ask", "call-actor")])
def test_a_rule_is_carried_into_the_task(action: Any, tool: str) -> None:
    rule = CarriedRule(tool=tool, action=action, text="the rule")
    permission = decision(ACTOR, RUN, InnerCalls(rules=(rule,))).permission
    assert permission is not None
    assert (permission.action, permission.rule) == (action, "the rule")


def test_an_actor_is_named_in_full_when_rules_name_actors() -> None:
    rule = CarriedRule(tool="outlast--sleeper", action="deny", text="the rule")
    arguments = {**RUN, "actor": "SLEEPERID12345678"}
    assert refused(ACTOR, arguments, InnerCalls(rules=(rule,))) is ErrorCategory.VALIDATION


@pytest.mark.parametrize(
    ("tool", "arguments", "inner", "given", "category"),
    [
        (OWN, {"name": "Ann"}, InnerCalls(depth=MAX_DEPTH), {}, ErrorCategory.VALIDATION),
        (ACTOR, RUN, InnerCalls(builtin_tools=()), {}, ErrorCategory.PERMISSION),
        (OWN, {"name": "Ann"}, InnerCalls(), {"offered_tools": ("shop",)}, ErrorCategory.PERMISSION),
        (OWN, {"name": "Ann"}, InnerCalls(), {"tool_mask": {"hello_world": False}}, ErrorCategory.PERMISSION),
        (ACTOR, RUN, InnerCalls(), {"is_paid": True}, ErrorCategory.PAYMENT),
        (ACTOR, RUN, InnerCalls(), {"has_budget": False}, ErrorCategory.PAYMENT),
        (ADD_ACTOR, {"actor": "outlast/sleeper"}, InnerCalls(), {}, ErrorCategory.VALIDATION),
        (OWN, {"name": 5}, InnerCalls(), {}, ErrorCategory.VALIDATION),
        (OWN, {"name": "Ann", "more": 1}, InnerCalls(), {}, ErrorCategory.VALIDATION),
    ],
)  # fmt: skip
def test_what_may_not_be_called_is_refused(
    tool: Tool, arguments: dict[str, Any], inner: InnerCalls, given: dict[str, Any], category: ErrorCategory
) -> None:
    assert refused(tool, arguments, inner, **given) is category


def test_wrong_arguments_are_those_of_the_function_that_made_the_call() -> None:
    refusal = decision(OWN, {"name": 5}).refusal
    assert refusal is not None
    assert [one.path for one in refusal.violations or ()] == ["/name"]
    assert "shop, which made the call" in (refusal.hint or "")


def test_a_function_needs_neither_a_budget_nor_an_account() -> None:
    assert decision(OWN, {"name": "Ann"}, is_paid=True, has_budget=False).refusal is None


def test_an_own_tool_is_not_switched_off_with_those_of_outlast() -> None:
    assert decision(OWN, {"name": "Ann"}, InnerCalls(builtin_tools=("hello_world",))).refusal is None


def unknown(name: str, **given: Any) -> ErrorEnvelope:
    request = InnerCallInput(
        tool=name, arguments={}, caller_id="key:ann", called_from="shop", **{"inner": InnerCalls(), **given}
    )
    return unknown_inner_tool(request)


def test_an_unknown_tool_is_answered_with_similar_names() -> None:
    assert unknown("get-datset").hint == "Did you mean get-dataset or get-dataset-list or get-dataset-items?"
    allowed = unknown("get-datset").allowed_tools or ()
    assert "get-dataset" in allowed
    assert "add-actor" not in allowed  # of a connection


def test_an_unknown_tool_without_similar_ones_is_answered_with_at_most_ten() -> None:
    hint = unknown("xyzzy").hint or ""
    names = hint.partition("It can call: ")[2].split(", ")
    assert len(names) == 11
    assert names[-1].startswith("and ")


@pytest.mark.parametrize(
    "given",
    [
        {"offered_tools": ("get-dataset-list",)},
        {"tool_mask": {"get-dataset-list": True}},
        {"inner": InnerCalls(builtin_tools=("get-dataset-list",))},
    ],
)
def test_tools_that_the_function_may_not_call_are_not_suggested(given: dict[str, Any]) -> None:
    assert unknown("get-datset", **given).hint == "Did you mean get-dataset-list?"


SEALER = SecretSealer.ephemeral()
SECRETS = InnerSecrets(
    ApifyPlatform(api_base_url="http://127.0.0.1:9", operator_token=SecretStr("none"), sealer=SEALER), SEALER
)


def made(tool: Tool | None, arguments: dict[str, Any]) -> Wait:
    wait = Wait(position="1", kind="call", digest="", tool=tool.name if tool else "absent", details=arguments)
    return SECRETS.hidden(wait, tool, "key:ann")


def asked(tool: Tool, wait: Wait, **given: Any) -> InnerCallInput:
    return InnerCallInput(
        tool=tool.name,
        arguments=wait.details,
        caller_id="key:ann",
        sealed=wait.sealed,
        called_from="shop",
        inner=InnerCalls(),
        **given,
    )


@pytest.mark.parametrize("run_input", [{"password": "hidden"}, '{"password": "hidden"}'])
async def test_the_input_of_an_unknown_actor_is_sealed_from_the_call_to_its_task(run_input: Any) -> None:
    wait = made(ACTOR, {"actor": "outlast/absent", "input": run_input})
    assert (wait.details["actor"], wait.sealed) == ("outlast/absent", ("input",))
    request = SECRETS.opened(asked(ACTOR, wait))
    admission = await SECRETS.sealed(request, ACTOR, decided(request, ACTOR))
    assert "hidden" not in f"{wait} {admission}"
    assert open_values(admission.arguments, SEALER, purpose="key:ann") == {
        "actor": "outlast/absent",
        "input": {"password": "hidden"},
    }


async def test_only_secret_fields_of_a_known_actor_are_sealed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def definition(*_: object) -> ActorDefinition:
        fields = {"password": {"type": "string", "isSecret": True}, "page": {"type": "string"}}
        return ActorDefinition.model_construct(input_schema={"type": "object", "properties": fields})

    monkeypatch.setattr("outlast.worker.inner_calls.fetch_actor_definition", definition)
    wait = made(ACTOR, {"actor": "outlast/vault", "input": {"password": "hidden", "page": "shown"}})
    request = SECRETS.opened(asked(ACTOR, wait, caller=Caller(id="key:ann")))
    admission = await SECRETS.sealed(request, ACTOR, decided(request, ACTOR))
    run_input: Any = admission.arguments["input"]
    assert run_input["page"] == "shown"
    assert "hidden" not in str(admission)


async def test_a_refusal_does_not_quote_what_is_sealed() -> None:
    request = SECRETS.opened(asked(ACTOR, made(ACTOR, {"actor": 5, "input": "hidden"})))
    admission = await SECRETS.sealed(request, ACTOR, decided(request, ACTOR))
    assert {one.path for one in (admission.refusal and admission.refusal.violations) or ()} == {"/actor", "/input"}
    assert "hidden" not in str(admission)


def test_arguments_of_an_unknown_tool_are_sealed_and_those_of_a_function_are_not() -> None:
    assert "hidden" not in str(made(None, {"password": "hidden"}))
    assert made(OWN, {"name": "Ann"}).details == {"name": "Ann"}
