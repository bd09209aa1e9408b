"""Sessions of a worker with MCP servers: real servers, over stdio and HTTP. Only the heartbeats are recorded here."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from temporalio.common import MetricMeter

from outlast.activities.contracts import ErrorCategory
from outlast.activities.failures.classify import ToolFailure
from outlast.activities.mcp_servers import contracts as mcp
from outlast.activities.mcp_servers.config import ServersFile
from outlast.activities.mcp_servers.metrics import ServerMetrics
from outlast.activities.mcp_servers.pool import ServerPool
from outlast.activities.mcp_servers.sessions import Relay
from tests.support.eventually import eventually
from tests.support.mcp import effects_server, secret_server

SERVER = effects_server.__file__


class Beats:
    """What a relay reports, in place of heartbeats."""

    def __init__(self, caller_id: str = "anna") -> None:
        self.caller_id = caller_id
        self.was_sent = False
        self.waited = list[str]()

    def sent(self) -> None:
        self.was_sent = True

    async def record_sent(self) -> None:
        self.was_sent = True

    def waits(self, message: str) -> None:
        self.waited.append(message)

    async def progressed(self, progress: float, total: float | None, message: str | None) -> None:
        pass


class Setting:
    """A pool, the file of its servers, and what it has noted."""

    def __init__(self, folder: Path) -> None:
        self.effects = folder / "effects"
        self.path = folder / "servers.json"
        self.notes = list[tuple[str, str, str]]()

    def write(self, **servers: dict[str, Any]) -> None:
        self.path.write_text(json.dumps({"mcpServers": servers}))

    def stdio(self, options: dict[str, Any] | None = None, **env: str) -> dict[str, Any]:
        variables = {"EFFECTS": str(self.effects), **env}
        return {"command": sys.executable, "args": [SERVER], "env": variables, "outlast": options or {}}

    @asynccontextmanager
    async def pool(self) -> AsyncIterator[ServerPool]:
        async def note(server: str, key: str, event: str) -> None:
            self.notes.append((server, key, event))

        pool = ServerPool(ServersFile(self.path), note, ServerMetrics(MetricMeter.noop))
        try:
            yield pool
        finally:
            await pool.close()

    @property
    def lines(self) -> list[str]:
        return self.effects.read_text().splitlines() if self.effects.exists() else []


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    return Setting(tmp_path)


async def call(
    pool: ServerPool, tool: str, arguments: dict[str, Any] | None = None, *, beats: Beats | None = None, **request: Any
) -> dict[str, Any]:
    given = {"caller_id": "anna", "server": "one", "tool": tool, "session": "caller", "session_key": "k", **request}
    relay = cast(Relay, beats or Beats())
    return await pool.call(mcp.CallServerToolInput.model_validate(given), arguments or {}, relay)


async def text_of(pool: ServerPool, tool: str, arguments: dict[str, Any] | None = None, **request: Any) -> str:
    return (await call(pool, tool, arguments, **request))["content"][0]["text"]


def processes() -> list[int]:
    found = subprocess.run(["pgrep", "-f", SERVER], capture_output=True, text=True, check=False).stdout.split()
    return [int(pid) for pid in found if Path(f"/proc/{pid}").exists()]


def of_this_test(setting: Setting) -> list[int]:
    """The processes of the servers of this test."""
    mark = f"EFFECTS={setting.effects}".encode()

    def is_own(pid: int) -> bool:
        try:
            return mark in Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            return False

    return [pid for pid in processes() if is_own(pid)]


async def test_calls_of_one_session_share_a_process_and_others_do_not(setting: Setting) -> None:
    setting.write(one=setting.stdio())
    async with setting.pool() as pool:
        assert [await text_of(pool, "count"), await text_of(pool, "count")] == ["1", "2"]
        assert await text_of(pool, "count", session_key="other") == "1"
        assert await text_of(pool, "count", session="call") == "1"
        await eventually(lambda: len(of_this_test(setting)) == 2)
    assert of_this_test(setting) == []
    assert ("one", "k", "lost") in setting.notes


async def test_a_changed_secret_begins_another_session_and_changed_options_do_not(
    setting: Setting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("first-value")
    monkeypatch.setenv("TOKEN_OF_ONE_FILE", str(secret))
    entry = setting.stdio(TOKEN="${secret:TOKEN_OF_ONE}")
    setting.write(one=entry)
    async with setting.pool() as pool:
        assert await text_of(pool, "count") == "1"
        setting.write(one={**entry, "outlast": {"timeout_seconds": 60}})
        assert await text_of(pool, "count") == "2"
        secret.write_text("second-value")
        with pytest.raises(ToolFailure, match="The session with the MCP server one was lost"):
            await call(pool, "count")
        assert await text_of(pool, "count") == "1"


async def test_a_server_gets_only_the_configured_environment(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTLAST_SECRET_OF_THE_WORKER", "x")
    monkeypatch.setenv("SSL_CERT_FILE", "/etc/ssl/cert.pem")
    setting.write(one=setting.stdio())
    async with setting.pool() as pool:
        names = json.loads(await text_of(pool, "environment"))
    assert {"EFFECTS", "SSL_CERT_FILE"} <= set(names)
    assert "OUTLAST_SECRET_OF_THE_WORKER" not in names


async def test_a_call_whose_process_is_killed_has_an_unknown_outcome_and_the_next_one_is_told(
    setting: Setting, tmp_path: Path
) -> None:
    setting.write(one=setting.stdio())
    async with setting.pool() as pool:
        beats = Beats()
        running = asyncio.create_task(call(pool, "append", {"text": "a", "gate": str(tmp_path / "no")}, beats=beats))
        await eventually(lambda: setting.lines == ["a"])
        os.kill(of_this_test(setting)[0], signal.SIGKILL)
        with pytest.raises(ToolFailure) as lost:
            await running
        assert lost.value.envelope.category is ErrorCategory.OUTCOME_UNKNOWN
        assert beats.was_sent
        await eventually(lambda: ("one", "k", "restarted") in setting.notes)
        with pytest.raises(ToolFailure) as told:
            await call(pool, "append", {"text": "b"})
        assert told.value.envelope.category is ErrorCategory.CONFLICT
        assert told.value.envelope.message.startswith("The session with the MCP server one was lost")
        assert await text_of(pool, "append", {"text": "c"}) == "did c"
    assert setting.lines == ["a", "c"]


async def test_nothing_is_told_where_no_state_is_lost(setting: Setting) -> None:
    setting.write(one=setting.stdio({"stateless": True}), safe=setting.stdio({"session": "shared"}, ONLY_SAFE="1"))
    async with setting.pool() as pool:
        for server in ("one", "safe"):
            shared = {"server": server, "session": "shared"}
            assert await text_of(pool, "put", {"text": "a"}, **shared) == "did a"
            for pid in of_this_test(setting):
                os.kill(pid, signal.SIGKILL)
            await eventually(lambda name=server: (name, "k", "restarted") in setting.notes)
            assert await text_of(pool, "put", {"text": "b"}, **shared) == "did b"


async def test_an_answer_that_takes_too_long_is_unknown_unless_the_call_may_be_repeated(
    setting: Setting, tmp_path: Path
) -> None:
    setting.write(one=setting.stdio())
    arguments = {"text": "a", "gate": str(tmp_path / "no")}
    async with setting.pool() as pool:
        for tool, safe, category in (
            ("append", False, ErrorCategory.OUTCOME_UNKNOWN),
            ("put", True, ErrorCategory.TIMEOUT),
        ):
            with pytest.raises(ToolFailure) as late:
                await call(pool, tool, arguments, repeats_safely=safe, timeout_seconds=0.2)
            assert late.value.envelope.category is category


async def test_a_program_that_does_not_exist_fails_at_once(setting: Setting) -> None:
    setting.write(one={"command": "/no/such/program", "args": ["--token=hidden"]})
    async with setting.pool() as pool:
        with pytest.raises(ToolFailure) as failed:
            await call(pool, "append")
    assert "one cannot be started" in failed.value.envelope.message
    assert "hidden" not in failed.value.envelope.message


async def test_a_call_waits_for_a_server_that_crashes_when_it_starts(setting: Setting, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    script = f"import pathlib, runpy, sys\nif not pathlib.Path({str(ready)!r}).exists(): sys.exit(1)\n"
    setting.write(one={**setting.stdio(), "args": ["-c", script + f"runpy.run_path({SERVER!r}, run_name='__main__')"]})
    beats = Beats()
    async with setting.pool() as pool:
        waiting = asyncio.create_task(call(pool, "append", {"text": "a"}, beats=beats))
        await eventually(lambda: bool(beats.waited))
        ready.touch()
        assert (await waiting)["content"][0]["text"] == "did a"
    assert "Waiting for the MCP server one" in beats.waited[0]


async def test_no_more_calls_run_at_a_time_than_configured(setting: Setting, tmp_path: Path) -> None:
    setting.write(one=setting.stdio({"max_concurrent": 1}))
    gate = tmp_path / "gate"
    second = Beats()
    async with setting.pool() as pool:
        first = asyncio.create_task(call(pool, "append", {"text": "a", "gate": str(gate)}))
        await eventually(lambda: setting.lines == ["a"])
        waiting = asyncio.create_task(call(pool, "append", {"text": "b"}, beats=second))
        await eventually(lambda: bool(second.waited))
        assert setting.lines == ["a"]
        gate.touch()
        await asyncio.gather(first, waiting)
    assert setting.lines == ["a", "b"]


async def test_a_caller_has_no_more_calls_at_a_time_than_configured_and_blocks_nobody(
    setting: Setting, tmp_path: Path
) -> None:
    setting.write(one=setting.stdio({"session": "shared", "max_concurrent": 2, "max_concurrent_per_caller": 1}))
    gate = tmp_path / "gate"
    second = Beats()
    async with setting.pool() as pool:
        first = asyncio.create_task(call(pool, "append", {"text": "a", "gate": str(gate)}, session="shared"))
        await eventually(lambda: setting.lines == ["a"])
        waiting = asyncio.create_task(call(pool, "append", {"text": "b"}, beats=second, session="shared"))
        await eventually(lambda: bool(second.waited))
        assert second.waited == ["Waiting for other calls of this caller of the MCP server one."]
        await call(pool, "append", {"text": "c"}, beats=Beats("bert"), session="shared")
        assert setting.lines == ["a", "c"]
        gate.touch()
        await asyncio.gather(first, waiting)
    assert setting.lines == ["a", "c", "b"]


async def test_an_idle_session_ends_without_a_message(setting: Setting) -> None:
    setting.write(one=setting.stdio({"idle_seconds": 0}))
    async with setting.pool() as pool:
        assert await text_of(pool, "count") == "1"
        await eventually(lambda: ("one", "k", "ended") in setting.notes)
        assert await text_of(pool, "count") == "1"


async def test_the_processes_end_with_a_worker_that_is_killed(setting: Setting, tmp_path: Path) -> None:
    setting.write(one=setting.stdio())
    script = tmp_path / "worker.py"
    script.write_text(
        "import asyncio, sys, pathlib\n"
        "sys.path.insert(0, sys.argv[2])\n"
        "from tests.unit.activities.mcp_servers import test_pool as t\n"
        "async def main():\n"
        "    setting = t.Setting(pathlib.Path(sys.argv[1]))\n"
        "    async with setting.pool() as pool:\n"
        "        await t.call(pool, 'append', {'text': 'up'})\n"
        "        await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    root = str(Path(SERVER).parents[3])
    worker = subprocess.Popen(  # noqa: ASYNC220 (it only starts it)
        [sys.executable, str(script), str(tmp_path), root], cwd=root
    )
    try:
        await eventually(lambda: setting.lines == ["up"])
        assert len(of_this_test(setting)) == 1
    finally:
        worker.kill()
        worker.wait()
    await eventually(lambda: of_this_test(setting) == [])


@asynccontextmanager
async def over_http(setting: Setting, **more: Any) -> AsyncIterator[None]:
    """Serve the effects over HTTP."""
    server = effects_server.http_server()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    setting.write(one={"url": f"http://127.0.0.1:{server.server_port}/mcp", **more})
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


async def test_calls_over_http_and_a_session_that_the_server_has_forgotten(setting: Setting) -> None:
    async with over_http(setting), setting.pool() as pool:
        assert await text_of(pool, "append", {"text": "a"}) == "did a"
        listing = await pool.listing("one")
        assert {tool.name: tool.annotated for tool in listing.tools}["append"] is False
        assert (listing.instructions, listing.kind) == ("Count the effects.", "http")
        effects_server.forget_sessions()
        with pytest.raises(ToolFailure) as told:
            await call(pool, "append", {"text": "b"})
        assert told.value.envelope.category is ErrorCategory.CONFLICT
        assert await text_of(pool, "append", {"text": "c"}) == "did c"


async def test_an_address_that_serves_credentials_is_refused(setting: Setting) -> None:
    setting.write(one={"url": "http://169.254.169.254/mcp"})
    async with setting.pool() as pool:
        with pytest.raises(ToolFailure) as refused:
            await call(pool, "append")
    assert refused.value.envelope.category is ErrorCategory.PERMISSION


async def test_a_server_that_refuses_the_credentials_fails_the_call_at_once(setting: Setting) -> None:
    async with over_http(setting, headers={"Authorization": "wrong"}), setting.pool() as pool:
        with pytest.raises(ToolFailure) as refused:
            await call(pool, "append")
    assert refused.value.envelope.category is ErrorCategory.AUTHENTICATION
    assert "HTTP status 401" in refused.value.envelope.message
    assert "wrong" not in refused.value.envelope.message


async def test_callers_have_sessions_with_their_own_secrets(setting: Setting) -> None:
    server = {"command": sys.executable, "args": [secret_server.__file__], "env": {"TOKEN": "${caller:TOKEN}"}}
    setting.write(one=server)
    async with setting.pool() as pool:

        async def who(secret: str, tool: str = "who") -> dict[str, Any]:
            request = {"caller_id": "a", "server": "one", "tool": tool, "session": "shared", "session_key": secret[0]}
            call = mcp.CallServerToolInput.model_validate(request)
            return await pool.call(call, {}, cast(Relay, Beats()), {"TOKEN": secret} if secret else {})

        for number in (1, 2):
            for secret in ("first-secret", "second-secret"):
                told = (await who(secret))["structuredContent"]
                assert told == {"who": secret_server.digest(secret), "calls": number}
        leaked = await who("first-secret", "leak")
        assert leaked["content"][0]["text"] == "The secret is [secret TOKEN]."
        with pytest.raises(ToolFailure, match="needs a secret of the caller: TOKEN") as refused:
            await call(pool, "who")
        assert refused.value.envelope.category is ErrorCategory.AUTHENTICATION
        common = await pool.common_listing("one")
        own = await pool.listing("one", {"TOKEN": "first-secret"})
        assert {tool.name for tool in own.tools} - {tool.name for tool in common.tools} == {
            f"of-{secret_server.digest('first-secret')}"
        }


async def test_a_server_may_list_its_tools_for_callers_alone(setting: Setting) -> None:
    with secret_server.serving_secrets() as remote:
        setting.write(one={"url": f"{remote.url}/mcp", "headers": {"Authorization": "Bearer ${caller:TOKEN}"}})
        remote.accepted = {"good-secret"}
        async with setting.pool() as pool:
            common = await pool.common_listing("one")
            assert (common.tools, common.error) == ((), None)
            assert common.notes == ("Its tools are listed with the secrets of each caller.",)
            assert (await pool.listing("one", {"TOKEN": "good-secret"})).tools
            with pytest.raises(ToolFailure, match="401"):
                await pool.listing("one", {"TOKEN": "wrong-secret"})
