"""Who may call what, as the operator writes it."""

import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from typer.testing import CliRunner

import outlast
from outlast.activities.contracts import Caller
from outlast.api.access import permissions
from outlast.api.access.permissions import CallName, PermissionRules, idle_roles, names_of
from outlast.api.access.policy.contracts import CallerEntry, PermissionEntry, Policy
from outlast.api.access.policy.policy_file import read_policy
from outlast.api.catalog.catalog import Catalogue
from outlast.api.settings import ApiSettings
from outlast.api.tasks.admission import carried_rules
from outlast.cli.main import command_line
from outlast.workflows.tools.core.call_actor import actor_tool
from outlast.workflows.tools.framework.selection import TOOL_ALIASES
from outlast.workflows.tools.framework.tool import Tool
from outlast.workflows.tools.registry import MODES, tool_set, tools_of
from outlast.workflows.turns.steps import ruling_of

ACTOR_ID, OTHER_ID = "aB3xYz1234567890Q", "zB3xYz1234567890Q"


def ruling(rules: str, caller: str, *names: str) -> str | None:
    found = PermissionRules.parse(rules).ruling(caller, map(CallName, names))
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
    for tool, actor, names in (
        (call_actor, None, ["call-actor"]),
        (call_actor, "user/name", ["call-actor", "user--name"]),
        (call_actor, "user/name:search", ["call-actor", "user--name", "user--name-search"]),
        (direct, "user/name", ["user--name"]),
    ):
        assert [name.tool for name in names_of(tool, actor)] == names


class Names(Catalogue):
    """Knows one Actor."""

    def __init__(self) -> None:
        pass

    async def full_names(self, ids: Iterable[str], caller: Caller) -> dict[str, str]:
        return {actor_id: "user/name" for actor_id in ids if actor_id == ACTOR_ID}


async def test_a_rule_by_an_actors_id_means_the_actor_in_calls_and_in_turns() -> None:
    entries = [PermissionEntry(caller="*", tool=tool, action="deny") for tool in (ACTOR_ID, f"{OTHER_ID}:search")]
    allowed = PermissionEntry(caller="*", tool="*", action="allow")
    rules = PermissionRules.of(Policy(unmatched="deny", rules=(*entries, allowed)))
    call_actor = next(tool for tool in tools_of("default") if tool.name == "call-actor")
    for actor, actor_id, action in (
        ("user/name", ACTOR_ID, "deny"),
        ("user/name:any", ACTOR_ID, "deny"),
        ("user/name", OTHER_ID, "allow"),
        ("user/name:search", OTHER_ID, "deny"),
        ("user/name", None, "allow"),
    ):
        found = rules.ruling_of_call("key:ann", call_actor, actor, actor_id)
        assert (found and found.action) == action, (actor, actor_id)
    carried = await carried_rules(rules, Caller(id="key:ann"), Names())
    for actor, action in (("User/Name", "deny"), ("user/other", "allow")):
        found = ruling_of(carried, "call-actor", actor)
        assert (found and found.action) == action


def test_an_approver_has_all_the_roles_that_rules_about_the_call_demand() -> None:
    def ask(tool: str, approver: str | None = None) -> PermissionEntry:
        return PermissionEntry(caller="*", tool=tool, action="ask", approver=approver)

    callers = {"key:boss": CallerEntry(roles=frozenset({"ops"}))}
    policy = Policy(callers=callers, rules=(ask("call-actor", "ops"), ask("u/a", "finance"), ask("u/b"), ask("u/c")))
    rules = PermissionRules.of(policy)
    for names, approvers in (
        (("call-actor", "u--a"), ("finance", "ops")),
        (("call-actor", "u--b"), ("ops",)),
        (("u--b",), ()),
    ):
        found = rules.ruling("key:ann", map(CallName, names))
        assert found is not None
        assert (found.action, found.approvers) == ("ask", approvers)
    assert [line for line in idle_roles(policy) if "'finance'" in line] == idle_roles(policy) != []
    with pytest.raises(ValueError, match="only"):
        PermissionEntry(caller="*", tool="x", action="deny", approver="ops")


async def test_what_no_rule_is_about_goes_by_the_policy_in_turns_as_well() -> None:
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
        found = rules.ruling(caller, map(CallName, names))
        assert found is not None
        assert (found.action, found.action == "allow" or found.rule) == (action, action == "allow" or "unmatched=deny")
    carried = await carried_rules(rules, Caller(id="key:ann"), Names())
    for tool, actor, action in (("user--name", "User/name", "allow"), ("fetch-apify-docs", None, "deny")):
        ruling_of_turn = ruling_of(carried, tool, actor)
        assert ruling_of_turn is not None
        assert ruling_of_turn.action == action


def test_a_rule_that_fits_no_tool_is_told_and_explained(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    rule = '[[rules]]\ncaller = "*"\ntool = "{}"\naction = "deny"\n'
    path.write_text("".join(map(rule.format, ("call-acter", ACTOR_ID, "short-id", "user/name", "get-*"))))
    with path.open("a") as file:
        file.write('[[rules]]\ncaller = "*"\ntool = "user/paid"\naction = "ask"\napprover = "finance"\n')
        file.write('[callers."key:boss"]\nroles = ["ops"]\n')
    done = CliRunner().invoke(command_line(), ["policy", "check", str(path), "--json"])
    told = json.loads(done.stdout)
    first, second, third = told["warnings"]
    assert "there is no end mark" in told["advice"][0]
    assert "did you mean 'call-actor'?" in first
    assert "or by its id" in second
    assert "no caller has the role 'finance'" in third
    command = ["policy", "explain", "key:ann", "call-actor", "--actor", "user~name", "--file", str(path), "--json"]
    explained = json.loads(CliRunner().invoke(command_line(), command).stdout)
    assert explained == {"action": "deny", "rule": "*:user/name=deny", "names": ["call-actor", "user--name"]}
    path.write_text(path.read_text().replace('"ops"', '"finance"'))
    asked = json.loads(
        CliRunner().invoke(command_line(), [part.replace("user~name", "user/paid") for part in command]).stdout
    )
    assert (asked["action"], asked["approvers"], asked["held_by"]) == ("ask", ["finance"], ["key:boss"])
    assert CliRunner().invoke(command_line(), ["policy", "check", str(path)]).stdout.count("finance") == 0


@pytest.mark.parametrize("mode", sorted(MODES))
def test_a_rule_about_the_common_name_of_a_tool_counts_in_every_mode(mode: str) -> None:
    """A mode may list a tool under a name that other servers use, or have a twin of it that shows a widget."""
    for tool in tools_of(mode):
        common = TOOL_ALIASES.get(tool.twin_of or tool.name, tool.twin_of or tool.name)
        for name in {common, tool.name}:
            for pattern in (name, f"{name[:-1]}?"):
                rules = PermissionRules.parse(f"*:{pattern}=deny")
                found = rules.ruling_of_call("key:ann", tool, None)
                assert found is not None, (mode, tool.name, pattern)
                assert found.action == "deny"


def tagged(name: str, *tags: str) -> Tool:
    @outlast.tool(name=name, tags=list(tags))
    def function() -> str:
        """Do nothing."""
        return ""

    return function.definition


@pytest.mark.parametrize(
    ("rules", "tags", "action"),
    [
        ("*:tag:billing=ask", ["billing"], "ask"),
        ("key:ann:tag:billing=ask", ["other", "billing"], "ask"),
        ("key:ann:tag:BILL*=ask", ["billing"], "ask"),
        ("key:ann:tag:billing=ask", ["other"], None),
        ("key:ann:tag:billing=ask", [], None),
        ("key:bob:tag:billing=ask", ["billing"], None),
        ("*:tag:billing=allow, *:*=deny", ["billing"], "allow"),
        ("*:refund=allow, *:tag:billing=deny", ["billing"], "allow"),
        ("key:tag:refund=deny", ["refund"], None),  # the caller `key:tag`
    ],
)
def test_a_rule_about_a_tag_decides_on_the_tools_that_have_it(rules: str, tags: list[str], action: str | None) -> None:
    found = PermissionRules.parse(rules).ruling_of_call("key:ann", tagged("refund", *tags), None)
    assert (found.action if found else None) == action


def test_a_policy_file_has_rules_about_tags(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text('unmatched = "deny"\n[[rules]]\ncaller = "key:*"\ntool = "tag:billing"\naction = "ask"\n')
    rules = PermissionRules.of(read_policy(path))
    assert [rule.tag for rule in rules.rules] == ["billing", None]
    found = rules.ruling_of_call("key:ann", tagged("refund", "billing"), None)
    assert found is not None
    assert (found.action, found.rule) == ("ask", "key:*:tag:billing=ask")
    assert json.loads(CliRunner().invoke(command_line(), ["policy", "check", str(path), "--json"]).stdout)["ok"]
    command = ["policy", "explain", "key:ann", "tag:billing", "--file", str(path), "--json"]
    assert json.loads(CliRunner().invoke(command_line(), command).stdout)["action"] == "ask"


async def test_a_rule_about_a_tag_counts_in_turns_and_in_calls_of_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    tools = (tagged("refund", "billing"), tagged("greet"))
    monkeypatch.setattr(permissions, "base_tools", lambda mode: tool_set(mode, tools))
    monkeypatch.setattr(permissions, "loaded_tools", lambda: ("refund", "greet"))
    rules = PermissionRules.parse("*:tag:billing=ask, *:refund=deny, *:tag:biling=deny, *:tag:old=deny")
    carried = await carried_rules(rules, Caller(id="key:ann"), Names())
    found = ruling_of(carried, "refund", None)
    assert found is not None
    assert (found.action, found.rule) == ("ask", "*:tag:billing=ask")
    assert ruling_of(carried, "greet", None) is None
    idle = permissions.idle_rules(rules)
    assert idle == [f"*:tag:{tag}=deny: no tool has the tag {tag!r}; tags are: billing." for tag in ("biling", "old")]
