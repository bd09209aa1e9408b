"""`outlast chat` as a user runs it, on a terminal and in a pipe."""

import json
import secrets
import subprocess
from pathlib import Path

from outlast.activities.llm.compaction import INSTRUCTIONS
from tests.support.paths import ROOT
from tests.support.processes.terminal import on_terminal, outlast_command
from tests.support.providers.script import Call, Hold, by_position, says
from tests.support.providers.server import ProviderServer
from tests.support.stacks.service import Service
from tests.support.stacks.stack_config import clean_environment


def run_chat(service: Service, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = outlast_command("chat", "--provider", "generic", "--model", "m", *arguments)
    environment = clean_environment(OUTLAST_URL=service.api_url)
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_one_message_is_answered_and_its_tools_are_shown(service: Service, provider: ProviderServer) -> None:
    provider.script = by_position(says("Let me greet. ", Call("hello_world", {"name": "Ann"})), says("Done."))
    ended = run_chat(service, "Greet Ann.")
    assert (ended.returncode, ended.stdout) == (0, "Let me greet. \nDone.\n")
    assert "→ hello_world" in ended.stderr
    assert "Hello, Ann!" in ended.stderr


def test_flags_say_how_the_model_answers(service: Service, provider: ProviderServer, tmp_path: Path) -> None:
    provider.script = by_position(says('{"a": "x"}'), says("Again."))
    schema = tmp_path / "schema.json"
    schema.write_text(json.dumps({"type": "object", "properties": {"a": {"type": "string"}}}))
    flags = ["--temperature", "0.5", "--effort", "low", "--max-output-tokens", "300", "--seed", "7", "--stop", "END"]
    session = f"c-{secrets.token_hex(4)}"
    ended = run_chat(service, "--session", session, *flags, "--stop", "FIN", "--schema", str(schema), "As JSON.")
    assert (ended.returncode, ended.stdout) == (0, '{"a": "x"}\n'), ended.stderr
    body = provider.requests[-1].body
    asked = {name: body[name] for name in ("temperature", "reasoning_effort", "max_tokens", "seed", "stop")}
    assert list(asked.values()) == [0.5, "low", 300, 7, ["END", "FIN"]]
    assert body["response_format"]["json_schema"]["schema"]["properties"] == {"a": {"type": "string"}}
    assert run_chat(service, "--session", session, "--temperature", "0.75", "Again.").returncode == 0
    assert (provider.requests[-1].body["temperature"], provider.requests[-1].body["seed"]) == (0.75, 7)
    schema.write_text("[]")
    refused = run_chat(service, "--schema", str(schema), "As JSON.")
    assert (refused.returncode, "it is not a JSON object" in " ".join(refused.stderr.split())) == (2, True)


def test_a_summary_of_older_messages_is_shown(service: Service, provider: ProviderServer) -> None:
    """`generic/windowed` has a window of 16,000 tokens."""
    provider.script = lambda asked: says("One thing." if INSTRUCTIONS[:40] in str(asked.body) else "Yes.")
    long = "These are many words about one thing. " * 600
    session = f"c-{secrets.token_hex(4)}"
    chosen = ("--session", session, "--model", "windowed", "--max-output-tokens", "300")
    ended = [run_chat(service, *chosen, f"{number}: {long}") for number in range(3)]
    assert [one.stdout for one in ended] == ["Yes.\n"] * 3, ended
    assert "older messages were summarised: One thing." in ended[-1].stderr


def test_programs_read_events(service: Service, provider: ProviderServer) -> None:
    provider.script = by_position(says("Hi."))
    ended = run_chat(service, "--json", "Hello.")
    names = [json.loads(line)["event"] for line in ended.stdout.splitlines()]
    assert names == ["text-delta", "step-finish", "finish"]


def test_a_conversation_goes_on_with_its_id(service: Service, provider: ProviderServer) -> None:
    provider.script = by_position(says("One."), says("Two."))
    assert run_chat(service, "--session", "kept", "First?").stdout == "One.\n"
    assert run_chat(service, "--session", "kept", "Second?").stdout == "Two.\n"


def test_a_person_answers_what_a_tool_asks_and_stops_an_answer(service: Service, provider: ProviderServer) -> None:
    provider.script = by_position(
        says(Call("pick_colour", {"colours": ["red", "blue"]})),
        says("Red it is."),
        says("This takes ", Hold("never")),
    )
    command = outlast_command("chat", "--provider", "generic", "--model", "m")
    environment = clean_environment(OUTLAST_URL=service.api_url, TERM="xterm")
    with on_terminal(command, environment, columns=120) as terminal:
        terminal.wait_for(r"Ctrl-D\s+exits")
        terminal.type("Which colour?")
        terminal.wait_for(r"colour.*:")
        terminal.type("red")
        terminal.wait_for(r"Red it is\.")
        terminal.type("And now for long.")
        terminal.wait_for("This takes")
        terminal.press_ctrl_c()
        terminal.wait_for("cancelled")
        terminal.press_ctrl_c()
        assert terminal.end() == 130
    assert "Traceback" not in terminal.screen
