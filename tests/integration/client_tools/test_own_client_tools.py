"""Client phases of the user's own tools, which `outlast client --tools-from` runs: in Python and in other languages."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

import httpx
import pytest

from tests.integration.client_tools.conftest import StartClient
from tests.support.calls.questions import call, result, said
from tests.support.calls.tasks import started
from tests.support.paths import ROOT
from tests.support.ports import free_address
from tests.support.processes.terminal import on_terminal, outlast_command

EXAMPLES = ROOT / "docs" / "examples"
STANDS = "The result above is complete and stands"

OWN_MODULE = """
import asyncio
from outlast import Arguments, ClientTool, NoAnswer

class Seen(Arguments):
    seen: bool

async def look(handoff):
    return Seen(seen=handoff.parameters["item"] == "tea")

async def refuse(handoff):
    raise NoAnswer("not at night", action="decline")

async def fail(handoff):
    raise NoAnswer("the lamp is broken")

async def defect(handoff):
    raise KeyError("hunter2")

async def never(handoff):
    await asyncio.Event().wait()

async def nonsense(handoff):
    return ["seen"]

CLIENT_TOOLS = [
    ClientTool(tool="server_client_server", phase="look", run=look, sends="whether you see it"),
    ClientTool(tool="server_client", phase="look", run=refuse, sends="nothing"),
    ClientTool(tool="plain_merge", phase="look", run=fail, sends="nothing"),
    ClientTool(tool="hand_off", phase="look", run=defect, sends="nothing"),
    ClientTool(tool="client_only", phase="look", run=never, sends="nothing", timeout_seconds=0.2),
    ClientTool(tool="client_server", phase="look", run=nonsense, sends="nothing"),
]
"""


async def test_a_module_of_the_users_own_answers_declines_and_fails(
    api: httpx.AsyncClient, start_client: StartClient, tmp_path: Path
) -> None:
    """One client offers them all, and goes on after each."""
    module = tmp_path / "own_client_module.py"
    module.write_text(OWN_MODULE)
    client = start_client(free_address(), "--tools-from", str(module))
    merged = await result(api, await started(api, call("server_client_server")))
    assert merged["structured"]["seen"] is True
    for tool, words in (("server_client", "declined 'look'"), ("plain_merge", 'It said: "the lamp is broken".')):
        done = await result(api, await started(api, call(tool)))
        assert (done["is_error"], words in said(done), STANDS in said(done)) == (False, True, True)
    for tool, words in (
        ("hand_off", "has a defect (KeyError)"),
        ("client_only", "did not end within 0.2 seconds"),
        ("client_server", "has a defect"),
    ):
        failed = await result(api, await started(api, call(tool)))
        assert failed["is_error"]
        assert words in failed["error"]["message"]
        assert "hunter2" not in str(failed)
    assert client.names().count("asked") == 6
    assert client.names().count("failed") >= 3


async def test_a_program_in_another_language_answers(api: httpx.AsyncClient, start_client: StartClient) -> None:
    client = start_client(free_address(), "--tools-from", str(EXAMPLES / "client_tools.json"))
    done = await result(api, await started(api, call("pick_colour", colours=["red", "blue"])))
    assert said(done) == "The user likes blue."
    await client.tells("answered")
    declined = await result(api, await started(api, call("pick_colour", colours=["red", "none"])))
    assert 'It said: "There is no colour."' in declined["error"]["message"]
    assert declined["error"]["category"] == "permission"


PROGRAMS = {
    "server_client": ("exit 3", "sh ended with exit code 3."),
    "plain_merge": ("echo hello", "The program did not write an answer"),
    "hand_off": ('echo \'{"action": "accept"}\'', "an answer has content, or an action other than accept"),
    "client_only": ("sleep 600", "It did not end within 1 seconds."),
    "server_client_server": ("printenv OUTLAST_TOKEN", "sh ended with exit code 1."),
}
"""By tool: a script, and what the call says of it."""


async def test_what_a_program_does_is_the_answer_or_why_there_is_none(
    api: httpx.AsyncClient, start_client: StartClient, tmp_path: Path
) -> None:
    entries = [
        {"tool": tool, "phase": "look", "command": ["sh", "-c", script], "sends": "x", "timeout_seconds": timeout}
        for tool, (script, _) in PROGRAMS.items()
        for timeout in [1 if "sleep" in script else 60]
    ]
    script = 'cat > handoff.json; echo \'{"content": {"colour": "red"}}\''
    entries.append({"tool": "pick_colour", "phase": "pick", "command": ["sh", "-c", script], "sends": "x"})
    (tmp_path / "tools.json").write_text(json.dumps({"client_tools": entries}))
    start_client(free_address(), "--tools-from", str(tmp_path / "tools.json"))
    for tool, (_, words) in PROGRAMS.items():
        assert words in said(await result(api, await started(api, call(tool))))
    done = await result(api, await started(api, call("pick_colour", colours=["red", "blue"])))
    assert said(done) == "The user likes red."
    handed = json.loads((tmp_path / "handoff.json").read_text())
    assert handed.items() >= {"protocol": 1, "tool": "pick_colour", "phase": "pick"}.items()
    assert handed["parameters"] == {"colours": ["red", "blue"]}
    assert handed["answer_schema"]["required"] == ["colour"]


async def test_the_python_example_is_agreed_to_on_the_terminal(
    api: httpx.AsyncClient, shell: Mapping[str, str]
) -> None:
    example = str(EXAMPLES / "hello_client.py")
    command = outlast_command("client", "--browser-url", free_address(), "--tools-from", example)
    with on_terminal(command, shell, columns=200) as terminal:
        terminal.wait_for("Waiting for handoffs")
        task_id = await started(api, call("pick_colour", colours=["red", "blue"]))
        terminal.wait_for("your favourite colour")
        terminal.type("yes")
        assert said(await result(api, task_id)) == "The user likes red."
        terminal.press_ctrl_c()
        assert terminal.end() == 130


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("no_tools.py", "X = 1", "has no CLIENT_TOOLS"),
        ("tools.json", '{"client_tools": [{"tool": "a"}]}', "client_tools/0/phase: Field required"),
        (
            "twice.py",
            "from outlast import ClientTool\nCLIENT_TOOLS = [ClientTool('list_tabs', 'collect_tabs', print, 'x')]",
            "Two client tools answer the phase 'collect_tabs' of list_tabs",
        ),
    ],
)
def test_client_tools_that_cannot_be_used_are_one_line(
    shell: Mapping[str, str], tmp_path: Path, name: str, text: str, words: str
) -> None:
    (tmp_path / name).write_text(text)
    command = outlast_command("client", "--yes", "--tools-from", str(tmp_path / name))
    ended = subprocess.run(command, env=dict(shell), capture_output=True, text=True, check=False, timeout=180)
    assert ended.returncode == 2, ended.stderr
    assert words in " ".join(ended.stderr.split())
    assert "Traceback" not in ended.stderr
