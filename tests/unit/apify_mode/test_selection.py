"""How connections of the mode `apify` choose tools, without a server: what the peer is not asked in CI."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from outlast.activities.contracts import JsonObject
from outlast.api.mcp.connections import selection_from
from outlast.workflows.tools import registry
from outlast.workflows.tools.apify.selection import shows_apps
from outlast.workflows.tools.framework.selection import ClientFacts, Selection
from outlast.workflows.tools.framework.tool import Tool
from outlast.workflows.tools.registry import MODES, actor_tool_of, load_tools

CLIENTS = {"modern": ClientFacts("some", is_modern=True), "legacy": ClientFacts("some")}


async def load_actor(actor: str) -> tuple[Tool, ...]:
    return (actor_tool_of("apify", actor, title=actor, description="", schema={}),)


def chosen(*, default_mode: str = "apify", **parameters: Sequence[str]) -> Selection:
    named = {name.replace("_", "-"): values for name, values in parameters.items()}
    return selection_from(named, default_mode=default_mode)


async def names(selection: Selection, client: ClientFacts) -> list[str]:
    return list((await load_tools(replace(selection, client=client), load_actor)).tools)


@pytest.fixture(autouse=True)
def no_tools_of_an_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests of this process may have loaded some."""
    monkeypatch.setattr(registry, "loaded_tools", tuple)


async def test_the_defaults_are_those_of_the_peer() -> None:
    modern, legacy = [await names(chosen(), client) for client in CLIENTS.values()]
    assert modern[:7] == [
        "search-actors",
        "fetch-actor-details",
        "call-actor",
        "get-actor-run",
        "get-dataset-items",
        "get-key-value-store-record",
        "abort-actor-run",
    ]
    assert modern[7:] == [
        "search-apify-docs",
        "fetch-apify-docs",
        "report-problem",
        "apify--rag-web-browser",
        "apify--web-fetch",
    ]
    assert legacy == [*modern[-2:], *modern[:-2]]


@pytest.mark.parametrize("name", ["Claude Code", "my-anthropic-thing", "local-agent-mode-apify"])
async def test_some_clients_are_offered_reports_only_when_they_ask(name: str) -> None:
    client = ClientFacts(name, is_modern=True)
    assert "report-problem" not in await names(chosen(), client)
    assert "report-problem" in await names(chosen(tools=["dev"]), client)
    assert "report-problem" not in await names(chosen(tools=["dev"], telemetry_enabled=["false"]), client)


def test_the_mode_is_named_by_mode_and_ui_is_its_own() -> None:
    assert chosen(default_mode="default", mode=["apify"], ui=["apps"]).option("ui") == "apps"
    assert chosen(ui=["openai"]).mode == "apify"
    assert chosen(default_mode="default", ui=["openai"]).mode == "openai"
    assert chosen(mode=["default"], ui=["openai"]).mode == "default"


SHOWS_APPS = ClientFacts("some", is_modern=True, shows_apps=True)


@pytest.mark.parametrize(
    ("ui", "client", "shown"),
    [
        (["apps"], CLIENTS["modern"], True),
        (["openai"], CLIENTS["legacy"], True),
        (["default"], SHOWS_APPS, False),
        (["auto"], SHOWS_APPS, True),
        ([], SHOWS_APPS, True),
        ([""], SHOWS_APPS, True),
        (["Apps"], CLIENTS["modern"], False),
        (["apps", "default"], CLIENTS["modern"], True),
        ([], CLIENTS["modern"], False),
    ],
)
async def test_widgets_are_there_by_what_the_address_says_else_by_what_the_client_can_show(
    ui: list[str], client: ClientFacts, shown: bool
) -> None:
    tools = ["search-actors,call-actor-widget"]
    selection = chosen(tools=tools, ui=ui) if ui else chosen(tools=tools)
    found = await names(selection, client)
    assert [name for name in found if name.endswith("-widget")] == (
        ["call-actor-widget", "search-actors-widget"] if shown else []
    )
    assert shows_apps(replace(selection, client=client)) is shown


async def test_who_names_no_ui_has_no_widgets() -> None:
    """REST and sessions choose tools without the parameters of a connection."""
    tools = (await load_tools(Selection(mode="apify", selectors=("actors", "call-actor-widget")), load_actor)).tools
    assert [name for name in tools if name.endswith("-widget")] == []


def test_a_command_takes_what_it_was_not_given_from_the_environment() -> None:
    environment = {"TOOLS": "docs", "ACTORS": "a/b", "UI_MODE": "apps", "TELEMETRY_ENABLED": "false"}
    read = selection_from({"tools": ["runs"]}, default_mode="apify", environment=environment)
    assert read.selectors == ("runs", "a/b")
    assert (read.option("ui"), read.option("telemetry")) == ("apps", "off")
    assert selection_from({}, default_mode="default", environment=environment).selectors is None


async def test_the_tool_of_an_actor_with_a_huge_schema_is_not_offered() -> None:
    """That server compiles none that is larger; `call-actor` still runs the Actor."""

    async def load(actor: str) -> tuple[Tool, ...]:
        fields: JsonObject = {"text": {"type": "string", "default": "ü" * (140_000 if actor == "a/huge" else 10)}}
        return (actor_tool_of("apify", actor, title=actor, description="", schema={"properties": fields}),)

    found = await load_tools(chosen(tools=["a/huge,a/small"]), load)
    assert [name for name in found.tools if name.startswith("a--")] == ["a--small"]


async def test_a_mode_has_the_tools_that_it_names_and_no_others() -> None:
    assert MODES["apify"].shares == frozenset()
    assert {"get-task", "restore-tool-output", "add-actor"}.isdisjoint(
        await names(chosen(tools=["actors"]), CLIENTS["modern"])
    )
