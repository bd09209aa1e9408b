"""Calls of tools that do not exist end in `invalid`, which nobody is offered."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.activities.contracts import Caller
from outlast.workflows.contracts.tool_calls import ToolCall
from outlast.workflows.tools.common.invalid import INVALID, MAX_INPUT_CHARS, invalid_arguments_of, invalid_result
from outlast.workflows.tools.framework.selection import DEFAULT_SELECTORS, Selection
from outlast.workflows.tools.framework.tool import Category
from outlast.workflows.tools.registry import (
    MODES,
    UnknownTool,
    base_tools,
    executor_kind,
    extend,
    load_tools,
    metric_label,
    tool_for,
    tools_of,
    unknown_tool,
)

TOKEN = "apify_api_AbC123_def-456GHI789jkl"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
)


def call(tool: str, **more: object) -> ToolCall:
    return ToolCall.model_validate({"tool": tool, "caller": Caller(id="local"), **more})


@pytest.mark.parametrize("mode", list(MODES))
async def test_it_is_a_tool_of_every_mode_and_never_listed(mode: str) -> None:
    assert tool_for(call("invalid", mode=mode)) is INVALID
    assert INVALID not in tools_of(mode)
    everything = Selection(mode=mode, selectors=(*map(str, Category), *DEFAULT_SELECTORS))

    async def no_actor(_actor: str) -> tuple[()]:
        return ()

    assert "invalid" not in (await load_tools(everything, no_actor)).tools
    with pytest.raises(UnknownTool):
        base_tools(mode).get("invalid")
    assert (executor_kind(call("invalid", mode=mode)), metric_label(call("invalid", mode=mode))) == ("none", "invalid")


def test_nobody_takes_its_name() -> None:
    with pytest.raises(ValueError, match="already"):
        extend([INVALID])


def test_it_says_what_was_tried_what_may_be_called_and_what_is_near() -> None:
    result = invalid_result("get-actor-runs", {"runId": "x"}, ["get-actor-run", "call-actor"])
    assert result.is_error
    assert result.error is not None
    assert (result.error.tool, result.error.category, result.error.retryable) == ("get-actor-runs", "not_found", False)
    assert result.error.allowed_tools == ("get-actor-run", "call-actor")
    assert result.error.hint == "Did you mean get-actor-run?"
    assert result.structured == {
        "tool": "get-actor-runs",
        "input": '{"runId": "x"}',
        "category": "not_found",
        "allowed_tools": ["get-actor-run", "call-actor"],
    }


def test_what_looks_like_a_secret_is_not_repeated() -> None:
    given_input = {"apiToken": "hunter2", "headers": [{"Authorization": "hunter2"}], "note": f"use {TOKEN}"}
    said = invalid_result(f"call {TOKEN}", given_input, []).model_dump_json()
    assert "hunter2" not in said
    assert TOKEN not in said
    assert "note" in said
    assert TOKEN not in unknown_tool(f"call {TOKEN}", ()).envelope.model_dump_json()


@given(st.text(max_size=3_000), JSON, st.lists(st.text(max_size=10), max_size=5))
def test_it_is_bounded_and_takes_its_own_arguments(name: str, arguments: object, allowed: list[str]) -> None:
    made = invalid_arguments_of(name, arguments, allowed)  # type: ignore[arg-type]
    assert len(json.dumps(made["input"], ensure_ascii=False)) <= 2 * MAX_INPUT_CHARS + 2
    assert len(str(made["tool"])) <= 128
    parsed = INVALID.parse(made)
    assert parsed.model_dump(mode="json") == made


def test_under_a_mask_an_unknown_tool_is_told_of_the_active_ones() -> None:
    with pytest.raises(UnknownTool) as caught:
        tool_for(call("get-actor-runs", tool_mask={"get-actor-run": True}))
    assert caught.value.envelope.allowed_tools == ("get-actor-run",)
