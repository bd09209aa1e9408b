"""Outlast's own tools by the setting OUTLAST_BUILTIN_TOOLS, and errors about tools that exist and are not offered."""

import pytest

from outlast.activities.contracts import Caller
from outlast.api.access.policy.contracts import PermissionEntry, Policy
from outlast.api.access.policy.source import PolicySource
from outlast.api.catalog.builtin_tools import AbsentTools, BuiltinTools
from outlast.api.sessions.profile import switched_off_rules
from outlast.api.settings import ApiSettings
from outlast.api.startup_checks import settings_problems
from outlast.workflows.contracts.sessions import SessionProfile, ToolSnapshot, TurnTool
from outlast.workflows.tools.common.invalid import unknown_tool_envelope
from outlast.workflows.tools.framework.tool import Category
from outlast.workflows.tools.registry import MODES, base_tools, own_tools


@pytest.mark.parametrize("mode", sorted(MODES))
def test_by_default_every_tool_is_offered(mode: str) -> None:
    assert BuiltinTools.of("on").offered(mode) == BuiltinTools.of("").offered(mode) == base_tools(mode)


@pytest.mark.parametrize("mode", ["default", "openai", "apify"])
def test_off_leaves_the_operators_tools(mode: str) -> None:
    """Other tests of this process may have loaded some, with what collects their results."""
    offered, own = set(BuiltinTools.of("off").offered(mode).tools), own_tools(mode)
    assert own <= offered
    collect = {"get-task", "list-tasks", "cancel-task", "answer-task", "restore-tool-output"}
    assert offered - own <= collect | {"get-actor-run", "get-actor-output"}
    assert not BuiltinTools.of("off").has_actors


def test_a_selection_has_the_tools_that_collect_its_results() -> None:
    offered = BuiltinTools.of("docs, call-actor").offered("default").tools
    docs = {one.name for one in base_tools("default").tools.values() if one.category is Category.DOCS}
    assert docs | {"call-actor", "get-actor-run", "get-actor-output", "get-task"} <= set(offered)
    assert "get-dataset" not in offered
    assert "search-actors" not in offered


def test_actors_are_tools_by_their_category_or_their_name() -> None:
    one = BuiltinTools.of("docs,apify~rag-web-browser")
    assert (one.has_actor("apify/rag-web-browser"), one.has_actor("apify/other")) == (True, False)
    assert BuiltinTools.of("actors").has_actor("apify/other")
    assert not BuiltinTools.of("docs").has_actors


def test_a_name_that_means_nothing_stops_the_start() -> None:
    (problem,) = settings_problems(ApiSettings(builtin_tools="docs,dcos"))
    assert "OUTLAST_BUILTIN_TOOLS: 'dcos' is not a category" in problem
    for setting in ("on", "off", "docs,call-actor,apify/rag-web-browser"):
        assert settings_problems(ApiSettings(builtin_tools=setting)) == []


def test_a_session_that_was_opened_before_may_not_call_what_is_switched_off() -> None:
    tools = [
        TurnTool(shown=name, name=name, actor=actor, input_schema_json="{}")
        for name, actor in (("call-actor", None), ("search-apify-docs", None), ("user--name", "user/name"))
    ]
    snapshot = ToolSnapshot(definitions_json="[]", tools=tuple(tools))
    profile = SessionProfile.model_construct(snapshot=snapshot)

    def denied(setting: str) -> list[str]:
        rules = switched_off_rules(profile, BuiltinTools.of(setting))
        assert {rule.action for rule in rules} <= {"deny"}
        return [rule.tool for rule in rules]

    assert denied("on") == []
    assert denied("docs") == ["call-actor", "user--name"]
    assert denied("call-actor,user/name") == ["search-apify-docs"]
    assert denied("off") == ["call-actor", "search-apify-docs", "user--name"]


def message(name: str, *, builtin: str = "on", mode: str = "default", by_connection: bool = True) -> str:
    denied = PermissionEntry(caller="key:ann", tool="call-actor", action="deny")
    absent = AbsentTools(BuiltinTools.of(builtin), PolicySource(None, base=Policy(rules=(denied,))))
    unknown, caller = unknown_tool_envelope(name, ()), Caller(id="key:ann")
    return absent.explained(unknown, name, mode, caller, by_connection=by_connection).message


@pytest.mark.parametrize(
    ("name", "given", "told"),
    [
        ("get-dataset", {}, "has not selected the tool 'get-dataset'. To select it, add `?tools=get-dataset`"),
        ("get-actor-run-log", {}, "To select it, add `?tools=get-actor-log`"),
        ("user--name", {}, "add `?actors=USER/NAME`"),
        ("get-dataset", {"builtin": "docs"}, "has not selected it in OUTLAST_BUILTIN_TOOLS"),
        ("get-dataset", {"builtin": "docs", "by_connection": False}, "has not selected it in OUTLAST_BUILTIN_TOOLS"),
        ("user--name", {"builtin": "off"}, "has not selected it in OUTLAST_BUILTIN_TOOLS"),
        ("report-problem", {}, "connect with `?mode=apify`"),
        ("no-such-tool", {}, "There is no tool 'no-such-tool'."),
        ("get-dataset", {"mode": "none"}, "There is no tool 'get-dataset'."),
    ],
)
def test_the_reason_says_how_to_get_the_tool(name: str, given: dict[str, object], told: str) -> None:
    assert told in message(name, **given)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("builtin", ["on", "off"])
def test_nothing_is_told_about_a_tool_that_the_policy_denies(builtin: str) -> None:
    assert message("call-actor", builtin=builtin) == "There is no tool 'call-actor'."
