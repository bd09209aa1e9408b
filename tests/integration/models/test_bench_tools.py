"""`outlast bench tools` as a user runs it."""

import asyncio
import json
import subprocess
from typing import Any

import pytest

from outlast.cli.commands.bench import PROMPTS
from tests.support.paths import ROOT
from tests.support.processes.terminal import outlast_command
from tests.support.providers.script import Asked, Call, Step, says
from tests.support.stacks.api_server import api_settings, connect, serving_api
from tests.support.stacks.fixtures import ModelStack
from tests.support.stacks.stack_config import clean_environment

pytestmark = pytest.mark.thorough

TOOLS = ("--tools", "hello_world,read-volume,restore-tool-output")


def bench(url: str, *arguments: str) -> tuple[int, dict[str, Any]]:
    command = outlast_command("bench", "tools", *TOOLS, *arguments)
    environment = clean_environment(OUTLAST_URL=url)
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)
    return ended.returncode, json.loads(ended.stdout)


def greeter(asked: Asked) -> Step:
    """Two steps for every message: a good and a bad call, then words."""
    if asked.results:
        return says("Greeted.")
    return says(Call("hello_world", {"name": "Ann"}), Call("hello_world", {"name": 7}))


def reader(asked: Asked) -> Step:
    return says("Read.") if asked.results else says(Call("read-volume", {"volume": 1}))


def test_one_document_with_the_figures_of_each_provider(stack: ModelStack) -> None:
    stack.provider.script = greeter
    chosen = ("--provider", "anthropic", "--model", "b-1", "--provider", "openai", "--model", "b-2")
    code, found = bench(stack.service.api_url, *chosen, "--runs", "2", "--steps", "5")
    assert code == 0, found
    assert (found["runs"], found["messages"], found["maxSteps"]) == (2, len(PROMPTS), 5)
    assert [(one["providerId"], one["modelId"]) for one in found["providers"]] == [
        ("anthropic", "b-1"),
        ("openai", "b-2"),
    ]
    for one in found["providers"]:
        assert (one["conversations"], one["turns"], one["failedTurns"]) == (2, 2 * len(PROMPTS), 0)
        assert (one["avgSteps"], one["toolSuccessRate"], one["storedOutputs"]) == (2, 0.5, 0)
        assert one["avgInputTokens"] > one["cacheReadTokens"] > 0
        assert one["cacheWriteTokens"] > 0
        assert one["avgOutputTokens"] > 0
        for measured in (one["modelSeconds"], one["toolSeconds"], one["stepOverheadSeconds"]):
            assert 0 < measured["p50"] <= measured["p95"]


def test_with_a_mask_the_others_are_refused(stack: ModelStack) -> None:
    """No message of the benchmark is for `hello_world`: every call of it is refused."""
    stack.provider.script = greeter
    begin = len(stack.provider.requests)
    code, found = bench(stack.service.api_url, "--provider", "generic", "--model", "b-3", "--runs", "1", "--mask")
    assert (code, found["mask"], found["maskInForce"]) == (0, True, True)
    assert found["providers"][0]["maskedTurns"] == len(PROMPTS)
    assert found["providers"][0]["toolSuccessRate"] == 0
    assert "allowed_tools" in stack.provider.requests[begin + 1].asked.results[0]


async def test_a_mask_that_the_server_does_not_heed_is_told(stack: ModelStack) -> None:
    stack.provider.script = lambda _: says("Hello.")
    settings = api_settings(stack.service.sandbox, data_dir=stack.service.folder, default_actors="")
    async with serving_api(await connect(stack.service.temporal_address), settings) as api:
        command = outlast_command("bench", "tools", "--provider", "generic", "--model", "b-5", "--runs", "1", "--mask")
        environment = clean_environment(OUTLAST_URL=str(api.base_url))
        ended = await asyncio.to_thread(
            subprocess.run, command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False
        )
    found = json.loads(ended.stdout)
    assert (found["mask"], found["maskInForce"]) == (True, False)
    assert "The server ignores masks" in " ".join(ended.stderr.split())


def test_without_compression_every_output_is_sent_whole(stack: ModelStack) -> None:
    stack.provider.script = reader
    chosen = ("--provider", "generic", "--model", "b-4", "--runs", "1")
    code, stored = bench(stack.service.api_url, *chosen)
    assert (code, stored["compression"], stored["maskInForce"]) == (0, True, False)
    assert stored["providers"][0]["storedOutputs"] > 0
    code, whole = bench(stack.service.api_url, *chosen, "--no-compression")
    assert (code, whole["compression"]) == (0, False)
    assert whole["providers"][0]["storedOutputs"] == 0
    assert whole["providers"][0]["avgInputTokens"] > 10 * stored["providers"][0]["avgInputTokens"]


def test_every_provider_needs_a_model(stack: ModelStack) -> None:
    code, _ = bench(stack.service.api_url, "--provider", "generic", "--model", "a", "--model", "b")
    assert code == 2


def test_without_a_model_each_provider_has_a_small_one(stack: ModelStack) -> None:
    stack.provider.script = greeter
    chosen = ("--provider", "anthropic", "--provider", "zai", "--provider", "openai")
    code, found = bench(stack.service.api_url, *chosen, "--runs", "1")
    assert code == 0, found
    models = [(one["providerId"], one["modelId"]) for one in found["providers"]]
    assert models == [("anthropic", "claude-haiku-4-5"), ("zai", "glm-4.7"), ("openai", "gpt-5-mini")]


def test_a_server_of_ones_own_has_no_default_model(stack: ModelStack) -> None:
    command = outlast_command("bench", "tools", "--provider", "generic")
    environment = clean_environment(OUTLAST_URL=stack.service.api_url)
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert "The provider 'generic' has no default model: give --model." in ended.stdout + ended.stderr
