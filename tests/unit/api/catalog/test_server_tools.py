"""Tools of the MCP servers in the operator's file: names, rules for calls, selection, instructions."""

import asyncio
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
from temporalio.client import Client

from outlast.activities.contracts import Caller
from outlast.activities.mcp_servers.config import McpServer, ServersFile
from outlast.activities.mcp_servers.contracts import ServerListing, ServerTool
from outlast.activities.platform.apify_platform import ApifyPlatform
from outlast.activities.secrets import SecretSealer
from outlast.api.catalog import servers
from outlast.api.catalog.builtin_tools import BuiltinTools
from outlast.api.catalog.catalog import Catalogue
from outlast.api.catalog.instructions import server_instructions
from outlast.api.catalog.servers import ServerTools
from outlast.api.errors import PlatformUnavailable, UnknownToolCalled
from outlast.workflows.contracts.tool_calls import PermissionRuling, ServerTarget
from outlast.workflows.tools.core.server_tools import MAX_NAME_CHARS, server_tool_name
from outlast.workflows.tools.framework.selection import Selection
from outlast.workflows.tools.framework.tool import Tool

ANYBODY = Caller(id="local")
READ = ServerTool(name="read", description="Read a page.", read_only=True, destructive=False, annotated=True)
WRITE = ServerTool(name="write", description="Write a page.")
SAVE = ServerTool(name="save", idempotent=True, annotated=True)


class ListedServers(ServerTools):
    """The servers of a file, listed without a worker: None stands for a server that cannot be listed."""

    def __init__(self, path: Path, listings: Mapping[str, tuple[ServerTool, ...] | None]) -> None:
        super().__init__(ServersFile(path, {}), cast(Client, None), SecretSealer.ephemeral())
        self.listings = dict(listings)
        self.lists: list[str] = []

    async def _list(self, server: McpServer, digest: str, max_age_seconds: float) -> ServerListing:
        del digest, max_age_seconds
        name = server.name
        await asyncio.sleep(0)
        self.lists.append(name)
        tools, at = self.listings[name], datetime.now(UTC)
        if tools is None:
            return ServerListing(server=name, listed_at=at, error="it does not start")
        return ServerListing(server=name, tools=tools, listed_at=at, instructions=f"Be kind to {name}.")


def servers_in(folder: Path, **entries: Any) -> Path:
    path = folder / "servers.json"
    named = {name: {"command": "server", "outlast": options} for name, options in entries.items()}
    path.write_text(json.dumps({"mcpServers": named}))
    return path


def catalogue_with(offered: ServerTools) -> Catalogue:
    return Catalogue(cast(ApifyPlatform, None), actors=(), defaults_need_token=True, servers=offered)


@pytest.fixture
def wiki(tmp_path: Path) -> ListedServers:
    path = servers_in(tmp_path, wiki={}, notes={})
    return ListedServers(path, {"wiki": (READ, WRITE), "notes": (READ, SAVE)})


def target(tool: Tool) -> ServerTarget:
    assert tool.server is not None
    return tool.server


async def rules_of(folder: Path, tool: str, **options: Any) -> ServerTarget:
    found = ListedServers(servers_in(folder, wiki=options), {"wiki": (READ, WRITE, SAVE)})
    return target((await found.offered()).tools[f"wiki__{tool}"])


@pytest.mark.parametrize(
    ("server", "tool", "name"),
    [("git", "git_log", "git__git_log"), ("a-b", "c-d", "a-b__c-d"), ("s", "x" * 47, f"s__{'x' * 47}")],
)
def test_a_name_is_that_of_server_and_tool(server: str, tool: str, name: str) -> None:
    assert server_tool_name(server, tool) == name


@pytest.mark.parametrize("tool", ["x" * 48, "a.b", "a b", "ü", "", "x" * 300, "\ud800"])
def test_other_names_fit_every_client_and_stay_distinct(tool: str) -> None:
    name = server_tool_name("git", tool)
    assert len(name) <= MAX_NAME_CHARS
    assert name.startswith("git__")
    assert name.encode("ascii").replace(b"_", b"").replace(b"-", b"").isalnum()
    assert name == server_tool_name("git", tool)
    assert name not in (server_tool_name("git", f"{tool}!"), server_tool_name("git", tool.replace(".", "-") + "-"))


async def test_annotations_decide_whether_a_lost_call_is_repeated(tmp_path: Path) -> None:
    assert (await rules_of(tmp_path, "read")).repeats_safely
    assert (await rules_of(tmp_path, "save")).repeats_safely
    write = await rules_of(tmp_path, "write")
    assert not write.repeats_safely
    assert write.destructive
    assert not write.read_only


async def test_the_file_overrides_annotations(tmp_path: Path) -> None:
    assert (await rules_of(tmp_path, "write", retry={"wr*": "always"})).repeats_safely
    assert not (await rules_of(tmp_path, "read", retry={"*": "never"})).repeats_safely
    keyed = await rules_of(tmp_path, "write", retry={"write": {"argument": "key"}})
    assert (keyed.repeats_safely, keyed.idempotency_argument) == (False, "key")
    check = {"tool": "read", "arguments": {"page": "{page}"}, "done": "structured.exists"}
    verify = (await rules_of(tmp_path, "write", verify={"write": check})).verify
    assert verify is not None
    assert verify.tool == "read"
    assert (await rules_of(tmp_path, "write", approve=["w*"])).needs_approval
    assert not (await rules_of(tmp_path, "read", approve=["w*"])).needs_approval
    assert (await rules_of(tmp_path, "read", approve=True, timeout_seconds=9)).timeout_seconds == 9


async def test_calls_share_a_session_by_the_effects_of_the_tools(wiki: ListedServers) -> None:
    tools = (await wiki.offered()).tools
    mine = {"caller_id": "a", "conversation": "s1", "task": "t1"}

    def key(name: str, **changes: Any) -> tuple[str, str]:
        call = target(tools[name]).for_call(**{**mine, **changes})
        return call.session, call.session_key

    assert key("notes__read") == key("notes__save", caller_id="b", conversation=None)
    assert key("notes__read")[0] == "shared"
    assert key("wiki__read")[0] == "conversation"
    assert key("wiki__read") == key("wiki__write", task="t2")
    assert key("wiki__read") != key("wiki__read", conversation="s2")
    assert key("wiki__read") != key("wiki__read", caller_id="b")
    assert key("wiki__read", conversation=None)[0] == "caller"


async def test_each_task_may_have_its_session(tmp_path: Path) -> None:
    rules = await rules_of(tmp_path, "read", session="task")
    keys = {rules.for_call(caller_id="a", conversation="s", task=task).session_key for task in ("1", "2", "2")}
    assert len(keys) == 2


async def test_an_approval_that_the_file_requires_is_not_lifted_by_a_rule(tmp_path: Path) -> None:
    rules = await rules_of(tmp_path, "write", approve=True)
    allowed, denied = (PermissionRuling(action=action, rule="r") for action in ("allow", "deny"))
    for ruling in (None, allowed):
        found = rules.ruling(ruling)
        assert found is not None
        assert found.action == "ask"
    assert rules.ruling(denied) is denied


async def test_servers_and_their_tools_are_selectors(wiki: ListedServers) -> None:
    catalogue = catalogue_with(wiki)

    async def loaded(*selectors: str, mode: str = "default") -> set[str]:
        found = await catalogue.load(Selection(mode, selectors or None), ANYBODY)
        return {name for name in found.tools if "__" in name}

    every = {"wiki__read", "wiki__write", "notes__read", "notes__save"}
    assert await loaded() == every
    assert await loaded("servers") == every
    assert await loaded("wiki") == {"wiki__read", "wiki__write"}
    assert await loaded("wiki__read", "notes__save") == {"wiki__read", "notes__save"}
    assert await loaded("storage") == set()
    assert await loaded("wiki__gone") == set()
    for mode in ("openai", "apify"):
        assert await loaded(mode=mode) == await loaded("servers", mode=mode) == every
        assert await loaded("notes", mode=mode) == {"notes__read", "notes__save"}


async def test_without_an_account_the_tools_of_servers_are_the_default(wiki: ListedServers) -> None:
    catalogue = catalogue_with(wiki)
    offered = (await catalogue.load(Selection(), ANYBODY)).tools
    assert "wiki__read" in offered
    assert "call-actor" not in offered
    assert "wiki__read" in (await catalogue.listed("default", ANYBODY)).tools


async def test_results_are_collected_without_outlasts_own_tools(wiki: ListedServers) -> None:
    catalogue = Catalogue(cast(ApifyPlatform, None), actors=(), builtin=BuiltinTools.of("off"), servers=wiki)
    offered = (await catalogue.load(Selection(), ANYBODY)).tools
    assert {"wiki__read", "get-task", "restore-tool-output"} <= offered.keys()
    assert not {"call-actor", "start-batch"} & offered.keys()
    assert (await catalogue.resolve("default", "restore-tool-output", ANYBODY)).name == "restore-tool-output"
    with pytest.raises(UnknownToolCalled):
        await catalogue.resolve("default", "start-batch", ANYBODY)


async def test_tools_are_called_by_name_in_every_mode(wiki: ListedServers) -> None:
    for mode in ("default", "openai", "apify"):
        tool = await catalogue_with(wiki).resolve(mode, "wiki__read", ANYBODY)
        assert target(tool).tool == "read"
    with pytest.raises(UnknownToolCalled):
        await catalogue_with(wiki).resolve("default", "wiki__gone", ANYBODY)
    assert "notes" not in wiki.lists


async def test_instructions_are_under_the_name_of_their_server(wiki: ListedServers) -> None:
    catalogue = catalogue_with(wiki)
    text = server_instructions(await catalogue.load(Selection("default", ("wiki",)), ANYBODY))
    assert "\n## MCP server wiki (tools `wiki__...`)\nBe kind to wiki." in text
    assert "notes" not in text
    tools = await catalogue.load(Selection("default", ("wiki__read", "notes")), ANYBODY)
    masked = server_instructions(tools, mask={"notes__read": True})
    assert "Be kind to notes." in masked
    assert "wiki" not in masked


@pytest.mark.parametrize("mode", ["default", "openai", "apify"])
async def test_instructions_for_servers_alone_do_not_speak_of_runs_of_actors(wiki: ListedServers, mode: str) -> None:
    catalogue = catalogue_with(wiki)
    text = server_instructions(await catalogue.load(Selection(mode, ("wiki",)), ANYBODY))
    assert "Be kind to wiki." in text
    assert "run an Actor" not in text
    if mode != "openai":  # its widgets' tools are in every connection
        assert "Actor" not in text
    assert "Actor" in server_instructions(await catalogue.load(Selection(mode, ("wiki", "call-actor")), ANYBODY))


async def test_a_server_that_cannot_be_listed_is_named_and_hides_no_other(wiki: ListedServers) -> None:
    wiki.listings["notes"] = None
    tools = await catalogue_with(wiki).load(Selection(), ANYBODY)
    assert "wiki__read" in tools.tools
    assert tools.missing_servers == ("notes",)
    assert "have not answered yet; their tools are added when they do: notes." in server_instructions(tools)
    with pytest.raises(PlatformUnavailable, match="it does not start"):
        await wiki.find("notes__read", ANYBODY)


async def test_the_last_good_list_remains(wiki: ListedServers, monkeypatch: pytest.MonkeyPatch) -> None:
    before = (await wiki.offered()).tools["wiki__read"]
    monkeypatch.setattr(servers, "_MAX_AGE_SECONDS", -1)
    wiki.listings["wiki"] = None
    monkeypatch.setattr(servers, "_LOOK_SECONDS", 0)
    async with wiki.watching():
        while len(wiki.lists) < 4:
            await asyncio.sleep(0.01)
    assert (await wiki.offered()).tools["wiki__read"] is before


async def test_a_changed_list_is_announced(wiki: ListedServers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "_MAX_AGE_SECONDS", -1)
    monkeypatch.setattr(servers, "_LOOK_SECONDS", 0)
    await wiki.offered()
    changed, revision = asyncio.Event(), wiki.revision
    wiki.on_change(lambda _: changed.set())
    wiki.listings["wiki"] = (READ,)
    async with wiki.watching():
        await asyncio.wait_for(changed.wait(), 30)
    assert wiki.revision > revision
    assert "wiki__write" not in (await wiki.offered()).tools


async def test_options_in_the_file_count_at_once(wiki: ListedServers, tmp_path: Path) -> None:
    await wiki.offered()
    servers_in(tmp_path, wiki={"except": ["write"]}, notes={})
    assert "wiki__write" not in (await wiki.offered()).tools
    servers_in(tmp_path, notes={})
    assert set((await wiki.offered()).tools) == {"notes__read", "notes__save"}
