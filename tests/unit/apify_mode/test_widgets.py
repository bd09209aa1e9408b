"""Tools of the mode `apify` that show what they do, without a server."""

from dataclasses import replace

import pytest
from pydantic import JsonValue

from outlast.activities.contracts import Caller, JsonObject
from outlast.api.access.permissions import PermissionRules
from outlast.api.catalog.mcp_results import visible_meta
from outlast.api.mcp.dialects.registry import dialect_of
from outlast.api.mcp.tool_lists import own_schema
from outlast.api.tasks.arguments import split_wait
from outlast.workflows.contracts.tool_calls import TextContent, ToolCall, ToolResult
from outlast.workflows.tools import registry
from outlast.workflows.tools.apify.cards import card_of
from outlast.workflows.tools.apify.widgets import ACTORS_PAGE, RUN_PAGE, shown_actor
from outlast.workflows.tools.core.payments import INPUT_CALLERS
from outlast.workflows.tools.registry import MODES, executor_kind, tools_of
from tests.support.paths import ROOT

TOOLS = {tool.name: tool for tool in tools_of("apify")}
SHOWN = "call-actor-widget"
WIDGETS = {name: tool for name, tool in TOOLS.items() if name.endswith("-widget")}


@pytest.mark.parametrize("name", WIDGETS)
def test_rules_about_a_tool_are_about_the_one_that_shows_it(name: str) -> None:
    base = name.removesuffix("-widget")
    rules = PermissionRules.parse(f"*:{base}=deny,*:*=allow")
    ruling = rules.ruling_of_call("anybody", WIDGETS[name], None)
    assert ruling is not None
    assert (ruling.action, ruling.rule) == ("deny", f"*:{base}=deny")
    of_base = rules.ruling_of_call("anybody", TOOLS[base], None)
    assert of_base is not None
    only_widget = PermissionRules.parse(f"*:{name}=deny")
    assert only_widget.ruling_of_call("anybody", TOOLS[base], None) is None
    assert only_widget.ruling_of_call("anybody", WIDGETS[name], None) is not None


def test_a_shown_call_is_answered_at_its_start_and_is_no_task_for_its_client() -> None:
    kinds = [executor_kind(ToolCall(tool=name, mode="apify", caller=Caller(id="a"))) for name in ("call-actor", SHOWN)]
    assert kinds == ["sync", "async"]
    dialect = dialect_of("apify")
    assert dialect.task_support(WIDGETS[SHOWN]) is None
    assert dialect.task_support(TOOLS["call-actor"]) == "optional"
    assert (dialect.state_tool_of(WIDGETS[SHOWN]), dialect.state_tool_of(TOOLS["call-actor"])) == (
        "get-actor-run-widget",
        "get-actor-run",
    )
    assert "waitSecs" not in own_schema(WIDGETS[SHOWN], "apify", 50)["properties"]
    assert split_wait(WIDGETS[SHOWN], "apify", {}, {}, 50) == ({}, 30), "as long as a call is waited for, not a tool"


def test_every_tool_that_runs_any_actor_is_known_for_it() -> None:
    """Large inputs and payments within inputs are looked for where these names say."""
    found = {tool.name for mode in MODES for tool in tools_of(mode) if tool.calls_actor and tool.actor is None}
    assert found == INPUT_CALLERS


def test_an_error_has_no_page_and_an_answer_keeps_its_own_meta() -> None:
    failed = ToolResult(content=(TextContent(text="No."),), is_error=True)
    assert RUN_PAGE.showing(failed, "A run") is failed
    shown = RUN_PAGE.showing(ToolResult(content=(), meta={"com.apify/ActorRun": {"usageTotalUsd": 1}}), "A run")
    assert shown.meta["com.apify/ActorRun"] == {"usageTotalUsd": 1}
    assert shown.meta["openai/widgetDescription"] == "A run"
    assert visible_meta(shown.meta, mode="apify") == shown.meta
    assert visible_meta(shown.meta, mode="default").keys() == {"com.apify/ActorRun", "ui"}
    assert ACTORS_PAGE.meta()["ui"] != RUN_PAGE.meta()["ui"]


def test_an_actor_of_which_little_is_known_has_every_field() -> None:
    actor: JsonObject = {"id": "1", "username": "a", "name": "b"}
    shown = shown_actor(actor, card_of(actor, {"model": "FREE"}))
    assert shown == {
        "id": "1",
        "name": "b",
        "username": "a",
        "fullName": "a/b",
        "title": "b",
        "description": "",
        "pictureUrl": "",
        "stats": {"actorReviewRating": 0, "actorReviewCount": 0, "totalUsers": 0},
        "url": "https://apify.com/a/b",
        "currentPricingInfo": {"model": "FREE"},
    }


def test_a_mode_says_itself_whether_it_has_widgets(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = replace(MODES["default"], name="shown", has_widgets=True)
    monkeypatch.setitem(registry._MODES, "shown", shown)  # as `extend` adds it, for this test only
    meta: dict[str, JsonValue] = {"openai/outputTemplate": "ui://x", "own": 1}
    assert visible_meta(meta, mode="shown") == meta
    assert visible_meta(meta, mode="default") == visible_meta(meta, mode="no-such-mode") == {"own": 1}
    assert {mode.name for mode in MODES.values() if mode.has_widgets} == {"openai", "apify", "shown"}


def test_the_mode_is_named_in_its_own_folders_and_in_one_list_of_dialects() -> None:
    own = ("workflows/tools/apify/", "api/mcp/dialects/apify")
    files = [path for floor in ("api", "workflows") for path in (ROOT / floor).rglob("*.py")]
    named = {path.relative_to(ROOT).as_posix() for path in files if '"apify"' in path.read_text()}
    assert {path for path in named if not path.startswith(own)} == {"api/mcp/dialects/registry.py"}
