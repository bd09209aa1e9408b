"""Who may call what, as the operator writes it."""

import pytest

from outlast.api.access.permissions import PermissionRules, names_of
from outlast.api.settings import ApiSettings
from outlast.workflows.tools.core.call_actor import actor_tool
from outlast.workflows.tools.registry import MODES, tools_of


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
