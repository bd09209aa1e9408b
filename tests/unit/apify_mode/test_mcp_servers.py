"""Tools of Actors that are MCP servers, in the mode `apify`: names, bounds, and which Actors may be run themselves."""

from typing import Any

import pytest

from outlast.api.catalog.catalog import CalledActor, standby_refusal
from outlast.workflows.tools.apify.answers import bounded
from outlast.workflows.tools.apify.call_actor import mcp_tool_names

PICTURE: dict[str, Any] = {"type": "image", "data": "x" * 400, "mimeType": "image/png"}


def words(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def test_names_are_whole_where_all_of_them_fit() -> None:
    assert mcp_tool_names("a.b/c", ["d.e", "f"]) == ["a-dot-b--c--d.e", "a-dot-b--c--f"]


def test_where_one_is_too_long_all_are_short_and_told_apart() -> None:
    short, long = mcp_tool_names("toolbox-makers/name", ["show", "y" * 80])
    assert short.startswith("toolbox--name--show-")
    assert long.startswith("toolbox--name--yyyy")
    assert [len(short), len(long)] == [len("toolbox--name--show-") + 4, 64]
    assert mcp_tool_names("toolbox-others/name", ["show", "y" * 80])[0] != short


def test_blocks_that_fit_are_passed_on_as_they_are() -> None:
    assert bounded([words("a"), PICTURE], 10_000) == (words("a"), PICTURE)


def test_what_is_too_large_is_cut_or_named() -> None:
    cut = bounded([words("ü" * 400), PICTURE, words("later")], 500)
    text, picture, last = (str(block["text"]) for block in cut)
    assert text.startswith("üüü")
    assert "of 400 characters. Ask the tool for less." in text
    assert len(text.encode()) < 600
    assert picture.startswith("[A block of type image and 4")
    assert last.startswith("[A block of type text")


@pytest.mark.parametrize(
    ("mode", "actor", "told"),
    [
        ("apify", CalledActor("a/b", {}, is_standby=True, is_mcp_server=True), "must specify the tool name"),
        ("apify", CalledActor("a/b", {}, is_standby=True), "runs in standby mode without an MCP server"),
        ("apify", CalledActor("a/b", {"properties": {"x": {}}}, is_standby=True), None),
        ("apify", CalledActor("a/b:tool", None, is_standby=True), None),
        ("apify", CalledActor("a/b", {}), None),
        ("default", CalledActor("a/b", {}, is_standby=True, is_mcp_server=True), None),
    ],
)
def test_which_actors_in_standby_are_not_run(mode: str, actor: CalledActor, told: str | None) -> None:
    refusal = standby_refusal(mode, "call-actor", actor)
    assert (refusal is None) == (told is None)
    assert told is None or (refusal is not None and told in refusal.message)
