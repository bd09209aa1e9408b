"""Who may call what, as the operator writes it."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from outlast.activities.contracts import Caller
from outlast.api.access.permissions import PermissionRules, names_of
from outlast.api.access.policy.contracts import PermissionEntry, Policy
from outlast.api.cli.main import app
from outlast.api.sessions.profile import carried_rules
from outlast.api.settings import ApiSettings
from outlast.workflows.tools.core.call_actor import actor_tool
from outlast.workflows.tools.registry import MODES, tools_of
from outlast.workflows.turns.permissions import ruling_of


def ruling(rules: str, caller: str, *names: str) -> str | None:
    found = PermissionRules.parse(rules).ruling(caller, names)
    return found.action if found else None


@pytest.mark.parametrize(
    ("rules", "caller", "name", "action"),
    [
        ("", "local", "x", None),
        ("key:ann:x=deny", "key:ann", "x", "deny"),
        ("key:ann:x=deny", "key:bob", "x", None),
        ("key:ann:x=allow, *:x=deny", "key:ann", "x", "allow"),
        ("key:ann:x=allow, *:x=deny", "key:bob", "x", "deny"),
        ("*:x=deny,key:ann:x=allow", "key:ann", "x", "deny"),
        ("*:*=ask", "apify:abc", "anything", "ask"),
        ("apify:*:get-*=allow,*:*=deny", "apify:abc", "get-dataset", "allow"),
        ("apify:*:get-*=allow,*:*=deny", "apify:abc", "call-actor", "deny"),
        ("*:Call-ACTOR=deny", "c", "call-actor", "deny"),
        ("*:User/name=deny", "c", "user--name", "deny"),
        ("*:user~my.name=deny", "c", "user--my-dot-name", "deny"),
        ("*:user/*=deny", "c", "user--name", "deny"),
        ("*:get-actor-run-log=deny", "c", "get-actor-log", "deny"),
        ("*:user/name=deny", "c", "user--named", None),
    ],
)
def test_the_first_rule_that_fits_decides(rules: str, caller: str, name: str, action: str | None) -> None:
    assert ruling(rules, caller, name) == action


def test_of_several_names_the_strictest_decision_counts() -> None:
    rules = "*:call-actor=allow,*:outlast--a=deny,*:outlast--b=ask"
    assert ruling(rules, "c", "call-actor", "outlast--a") == "deny"
    assert ruling(rules, "c", "call-actor", "outlast--b") == "ask"
    assert ruling(rules, "c", "call-actor", "outlast--c") == "allow"


@pytest.mark.parametrize("wrong", ["x=deny", "a:x", "a:x=maybe", ":x=deny", "a:=deny", "deny"])
def test_what_is_no_rule_keeps_the_api_from_starting(wrong: str) -> None:
    with pytest.raises(ValueError, match="write CALLER:TOOL=allow"):
        ApiSettings(permissions=wrong)


def test_a_call_goes_by_the_names_of_its_actor_too() -> None:
    call_actor = next(tool for tool in tools_of("default") if tool.name == "call-actor")
    direct = actor_tool(MODES["default"].executor, "user/name", title="", purpose="Runs it.", description="", schema={})
    assert names_of(call_actor, None) == ("call-actor",)
    assert names_of(call_actor, "user/name") == ("call-actor", "user--name")
    assert names_of(call_actor, "user/name:search") == ("call-actor", "user--name", "user--name-search")
    assert names_of(direct, "user/name") == ("user--name",)


def test_what_no_rule_is_about_goes_by_the_policy_in_turns_as_well() -> None:
    entries = (
        PermissionEntry(caller="key:ann", tool="user/name", action="allow"),
        PermissionEntry(caller="*", tool="get-dataset", action="allow"),
    )
    rules = PermissionRules.of(Policy(unmatched="deny", rules=entries))
    for caller, names, action in (
        ("key:ann", ("user--name",), "allow"),
        ("key:ann", ("call-actor", "user--name"), "deny"),  # each name has to be allowed
        ("key:bob", ("user--name",), "deny"),
        ("key:bob", ("get-dataset",), "allow"),
    ):
        found = rules.ruling(caller, names)
        assert found is not None
        assert (found.action, found.action == "allow" or found.rule) == (action, action == "allow" or "unmatched=deny")
    carried = carried_rules(rules, Caller(id="key:ann"))
    for tool, actor, action in (("user--name", "User/name", "allow"), ("fetch-apify-docs", None, "deny")):
        ruling_of_turn = ruling_of(carried, tool, actor)
        assert ruling_of_turn is not None
        assert ruling_of_turn.action == action


def test_a_rule_that_fits_no_tool_is_told_and_explained(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    rule = '[[rules]]\ncaller = "*"\ntool = "{}"\naction = "deny"\n'
    path.write_text("".join(map(rule.format, ("call-acter", "aB3xYz1234567890Q", "user/name", "get-*"))))
    done = CliRunner().invoke(app, ["policy", "check", str(path), "--json"])
    first, second = json.loads(done.stdout)["warnings"]
    assert "did you mean 'call-actor'?" in first
    assert "not by its id" in second
    command = ["policy", "explain", "key:ann", "call-actor", "--actor", "user~name", "--file", str(path), "--json"]
    explained = json.loads(CliRunner().invoke(app, command).stdout)
    assert explained == {"action": "deny", "rule": "*:user/name=deny", "names": ["call-actor", "user--name"]}
