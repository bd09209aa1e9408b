"""Messages of both MCP revisions, made up by grammar: each is answered in words of the protocol, to its own caller."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.hostile.party import Party
from tests.support.hostile.rpc_grammar import Known, Message, messages
from tests.support.hostile.texts import TIMES, examples
from tests.support.http.mcp_wire import LEGACY, MODERN
from tests.support.paths import ROOT
from tests.support.stacks.service import Service, settings_environment

MESSAGES = 60
SOON = httpx.Timeout(120, read=0.5)
"""For what may be answered late, or never: enough for an answer that comes at once, and none is required."""
REQUIRED = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}

REFUSED_LINES = {
    b"{": (-32700, None),
    b"[" * 500: (-32700, None),
    b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]': (-32600, None),
    **{
        b'{"jsonrpc": "2.0", "id": %s, "method": "ping"}' % request_id: (-32600, None)
        for request_id in (b"null", b"{}", b"1.5", b"true")
    },
    b'{"jsonrpc": "2.0", "id": "deep", "method": "ping", "params": {"a": %s}}' % (b"[" * 120 + b"]" * 120): (
        -32602,
        "deep",
    ),
    b'{"jsonrpc": "2.0", "id": "many", "method": "ping", "params": {"a": [%s1]}}' % (b"{}," * 250_000): (
        -32602,
        "many",
    ),
}
"""Lines over standard input with the error that they get, and whose error it is. None was answered once."""


@dataclass(frozen=True)
class Two:
    """Ann, Bob, and what each of them can name."""

    everybody: list[Party]
    known: list[Known]
    precious: str
    """A task of Ann's that she herself leaves alone."""


@pytest.fixture
def two(everybody: list[Party]) -> Two:
    ann, bob = everybody
    precious = started(ann, "ask-name")
    of_ann = [started(ann, "say", text=ann.canary), started(ann, "ask-name")]
    of_bob = [started(bob, "say", text=bob.canary), started(bob, "ask-name")]
    sessions = [opened(party) for party in everybody]
    known = [Known([*of_ann, *of_bob], sessions), Known([*of_bob, *of_ann, precious], sessions[::-1])]
    return Two(everybody, known, precious)


def started(party: Party, tool: str, **arguments: Any) -> str:
    answer = party.ask("POST", "/v1/tasks", json={"tool": tool, "arguments": arguments})
    return answer.raise_for_status().json()["id"]


def opened(party: Party) -> str:
    """The id of a new session of the older revision."""
    client = {"name": "fuzz", "version": "1"}
    params = {"protocolVersion": LEGACY, "capabilities": {"elicitation": {}}, "clientInfo": client}
    body = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    session = party.ask("POST", "/mcp", json=body, headers=REQUIRED).headers["mcp-session-id"]
    party.ask(
        "POST",
        "/mcp",
        json={"jsonrpc": "2.0", "method": "notifications/initialized"},
        headers={**REQUIRED, "Mcp-Session-Id": session},
    )
    return session


@TIMES
@pytest.mark.parametrize("revision", [pytest.param(LEGACY, marks=pytest.mark.thorough), MODERN])
def test_messages_over_http(two: Two, revision: str, times: int) -> None:
    either = [messages(known, revision) for known in two.known]

    @given(sent=st.integers(0, 1).flatmap(lambda who: st.tuples(st.just(who), either[who])))
    @examples(MESSAGES, times)
    def answers(sent: tuple[int, Message]) -> None:
        who, message = sent
        post(two.everybody[who], message)

    answers()
    ann, bob = two.everybody
    assert ann.ask("GET", f"/v1/tasks/{two.precious}").json()["status"] == "input_required"
    for party in (ann, bob):
        assert listed(party) >= 5


def post(party: Party, message: Message) -> None:
    try:
        if message.may_wait:
            party.peek("POST", "/mcp", content=message.body, headers=message.headers, timeout=SOON)
        else:
            party.ask("POST", "/mcp", content=message.body, headers=message.headers)
    except httpx.ReadTimeout:
        assert message.may_wait, message


def listed(party: Party) -> int:
    """How many tools a client is shown after all this."""
    session = opened(party)
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    answer = party.ask("POST", "/mcp", json=body, headers={**REQUIRED, "Mcp-Session-Id": session})
    data = next(line for line in answer.text.splitlines() if line.startswith("data: {"))
    return len(json.loads(data.removeprefix("data: "))["result"]["tools"])


class Stdio:
    """MCP on standard input and output. Its caller is the user of the machine: a third one beside Ann and Bob."""

    def __init__(self, process: "subprocess.Popen[bytes]", revision: str, party: Party) -> None:
        self._process = process
        self._revision = revision
        self._party = party
        self._probes = 0

    def send(self, message: Message) -> None:
        """Send a message, and then a question that has to be answered; what comes until then is checked."""
        self._write(message.body.replace(b"\n", b" "))
        self._probes += 1
        probe = f"probe-{self._probes}"
        self.request(probe, "ping" if self._revision == LEGACY else "server/discover", {})

    def error_of(self, line: bytes) -> tuple[int, Any]:
        """Send a line that is refused: the code of the error, and the id that it is for."""
        self._write(line)
        told = json.loads(self._read())
        return told["error"]["code"], told["id"]

    def request(self, request_id: str, method: str, params: dict[str, Any]) -> None:
        """Ask, and read until it is answered."""
        if self._revision == MODERN:
            meta = "io.modelcontextprotocol"
            params = {**params, "_meta": {f"{meta}/protocolVersion": MODERN, f"{meta}/clientCapabilities": {}}}
        self._write(json.dumps({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}).encode())
        for line in iter(self._read, b""):
            self._party.check(200, line, f"before the answer to {request_id}")
            if json.loads(line).get("id") == request_id:
                return
        raise AssertionError(f"{request_id} was not answered: the server has ended")

    def _write(self, line: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + b"\n")
        self._process.stdin.flush()

    def _read(self) -> bytes:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


@contextmanager
def over_stdio(service: Service, party: Party, revision: str) -> Iterator[Stdio]:
    environment = settings_environment(service.temporal_address, service.sandbox, OUTLAST_DATA_DIR=str(service.folder))
    environment |= {"OUTLAST_TOOLS_FROM": "tests.support.tools.life_tools", "OUTLAST_MAX_WAIT_SECONDS": "1"}
    command = [sys.executable, "-m", "tests.support.http.stdio_server", "tools=actors,runs,dev"]
    with (service.folder / f"stdio-{revision}.log").open("wb") as log:
        process = subprocess.Popen(
            command, env=environment, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
        )
    with process:
        yield Stdio(process, revision, party)
        process.kill()


@TIMES
@pytest.mark.parametrize("revision", [LEGACY, pytest.param(MODERN, marks=pytest.mark.thorough)])
def test_messages_over_stdio(service: Service, two: Two, revision: str, times: int) -> None:
    user = Party("user", two.everybody[0].http, two.everybody[0].pulse, strangers=two.everybody)
    with over_stdio(service, user, revision) as stdio:
        if revision == LEGACY:
            client = {"name": "fuzz", "version": "1"}
            stdio.request("first", "initialize", {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": client})
        else:
            stdio.request("first", "server/discover", {})

        for line, refusal in REFUSED_LINES.items():
            assert stdio.error_of(line) == refusal

        @given(message=messages(two.known[1], revision))
        @examples(MESSAGES, times)
        def answers(message: Message) -> None:
            stdio.send(message)

        answers()
    assert two.everybody[0].ask("GET", f"/v1/tasks/{two.precious}").json()["status"] == "input_required"
