"""Which tools there are in which mode, and what is said of a tool or a mode that does not exist."""

from copy import copy
from dataclasses import replace
from typing import Any

import pytest

from outlast.activities.contracts import Caller
from outlast.workflows.contracts.tool_calls import ToolCall
from outlast.workflows.tools import registry
from outlast.workflows.tools.framework.mode import Mode
from outlast.workflows.tools.framework.tool import Category
from outlast.workflows.tools.registry import (
    ACTOR_TOOL_LABEL,
    COMMON,
    MODES,
    UnknownTool,
    actor_tool_of,
    base_tools,
    executor_kind,
    extend,
    metric_label,
    tool_for,
    tools_of,
)


def call(tool: str, *, mode: str = "default", actor: str | None = None) -> ToolCall:
    return ToolCall(tool=tool, mode=mode, actor=actor, caller=Caller(id="local"))


@pytest.mark.parametrize("mode", list(MODES))
def test_every_tool_of_a_mode_carries_out_its_own_calls(mode: str) -> None:
    for definition in tools_of(mode):
        # A call without a version is of the first one.
        assert tool_for(call(definition.name, mode=mode)) in (definition, *definition.older_versions)


@pytest.mark.parametrize(("mode", "kind"), [("default", "sync"), ("openai", "async"), ("apify", "sync")])
def test_a_mode_has_one_executor_for_call_actor_and_for_actor_tools(mode: str, kind: str) -> None:
    assert executor_kind(call("call-actor", mode=mode)) == kind
    assert executor_kind(call("outlast--sleeper", mode=mode, actor="outlast/sleeper")) == kind
    assert executor_kind(call("get-dataset-items", mode=mode)) == "none"


def test_a_tool_that_answers_at_the_start_of_a_run_does_so_whatever_the_mode() -> None:
    assert executor_kind(call("call-actor-widget", mode="apify")) == "async"


def test_an_unknown_tool_is_answered_with_those_that_are_meant() -> None:
    with pytest.raises(UnknownTool) as caught:
        tool_for(call("get-actor-runs"))
    envelope = caught.value.envelope
    assert envelope.hint is not None
    assert "get-actor-run" in envelope.hint
    assert envelope.allowed_tools == tuple(definition.name for definition in tools_of("default"))
    assert (envelope.category, envelope.retryable, envelope.tool) == ("not_found", False, "get-actor-runs")


def test_an_unknown_tool_like_no_other_gets_the_list_only() -> None:
    with pytest.raises(UnknownTool) as caught:
        tool_for(call("zzz"))
    assert caught.value.envelope.hint == "Choose one of the available tools."


def test_an_unknown_mode_is_answered_with_those_there_are() -> None:
    for ask in (lambda: tools_of("anthropic"), lambda: tool_for(call("call-actor", mode="anthropic"))):
        with pytest.raises(UnknownTool) as caught:
            ask()
        assert caught.value.envelope.hint == f"Choose one of: {', '.join(MODES)}."


def test_metric_labels_have_few_values() -> None:
    assert metric_label(call("call-actor")) == "call-actor"
    assert metric_label(call("a--b", actor="a/b")) == metric_label(call("c--d", actor="c/d")) == ACTOR_TOOL_LABEL
    assert metric_label(call("made-up-1")) == metric_label(call("made-up-2")) == "unknown"
    assert metric_label(call("call-actor", mode="made-up")) == "unknown"


def test_a_tool_set_grows_into_a_new_one_and_never_shadows_a_tool() -> None:
    tools = base_tools("default")
    actor = actor_tool_of("default", "a/b", title="", description="", schema={})
    grown = tools.including(actor, actor)
    assert actor.name not in tools.tools
    assert list(grown.tools) == [*tools.tools, "a--b"]
    impostor = actor_tool_of("default", "call-actor", title="", description="", schema={})
    assert tools.including(impostor).get("call-actor") is tools.get("call-actor")


def test_a_tool_set_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        base_tools("default").tools["x"] = None  # type: ignore[index]


def test_a_tool_set_says_which_tools_it_has() -> None:
    with pytest.raises(UnknownTool) as caught:
        base_tools("default").get("call-actors")
    assert "call-actor" in (caught.value.envelope.hint or "")


def mode_of(name: str, **parts: Any) -> Mode:
    return replace(MODES["default"], name=name, **parts)


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that forgets after the test what it was extended with."""
    for name in ("_COMMON", "_BY_MODE"):
        monkeypatch.setattr(registry, name, copy(getattr(registry, name)))
    modes = dict(MODES)
    monkeypatch.setattr(registry, "_MODES", modes)
    monkeypatch.setattr(registry, "MODES", modes)


@pytest.mark.usefixtures("process")
def test_extending_is_all_or_nothing() -> None:
    good = replace(tools_of("default")[0], name="wave")
    third = mode_of("third")
    for tools, modes, said in (
        ([good, replace(good, name="call-actor")], [third], "'call-actor' already"),
        ([good, good], [third], "'wave' already"),
        ([good], [third, mode_of("openai")], "mode 'openai' already"),
        ([good], [third, mode_of("fourth", companions=("nod",))], "companions: nod"),
        (
            [good],
            [third, mode_of("fourth", tools=(replace(good, category=Category.DEV),))],
            "'wave' needs the category",
        ),
    ):
        with pytest.raises(ValueError, match=said):
            extend(tools, modes)
        assert "wave" not in {definition.name for definition in tools_of("default")}
        assert set(registry.MODES) == {"default", "openai", "apify"}
    # Nothing of a refused extension comes along with a later one.
    extend([replace(good, name="nod")])
    assert "wave" not in {definition.name for definition in tools_of("default")}
    extend([good], [third])
    for mode in ("default", "openai", "apify", "third"):
        assert tool_for(call("wave", mode=mode)).name == "wave"


@pytest.mark.usefixtures("process")
def test_a_mode_has_its_own_form_of_a_common_tool_also_of_one_that_comes_later() -> None:
    common = replace(tools_of("default")[0], name="wave")
    own = [replace(common, description="Mine."), replace(COMMON[-1], description="Mine.")]
    extend([common], [mode_of("third", tools=tuple(own))])
    extend([replace(common, name="nod")])
    for definition in own:
        assert tool_for(call(definition.name, mode="third")) is definition
        assert tool_for(call(definition.name)).description != "Mine."
    assert tool_for(call("nod", mode="third")).name == "nod"


def test_a_mode_with_two_tools_of_one_name_is_refused() -> None:
    with pytest.raises(ValueError, match="two tools called 'call-actor'"):
        mode_of("third", tools=(tool_for(call("call-actor")),) * 2)
