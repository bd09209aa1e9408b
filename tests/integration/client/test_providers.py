"""Providers and models: listed by both clients and the command; the command says what there is."""

import asyncio
import json
from collections.abc import Callable

import pytest
from typer.testing import CliRunner, Result

from outlast.cli.main import command_line
from outlast.client import AsyncClient, Client, Provider
from tests.support.stacks.service import Service

Outlast = Callable[..., Result]


@pytest.fixture
def outlast(service: Service, monkeypatch: pytest.MonkeyPatch) -> Outlast:
    monkeypatch.setenv("OUTLAST_URL", service.api_url)
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *arguments: CliRunner().invoke(command_line(), arguments, prog_name="outlast")


def test_providers_say_whether_a_worker_has_their_key(service: Service, client: Client, outlast: Outlast) -> None:
    """OUTLAST_MODEL_PROVIDERS of these tests leaves out Z.ai."""

    async def asked() -> tuple[Provider, ...]:
        async with AsyncClient(service.api_url) as asynchronous:
            return await asynchronous.providers()

    found = client.providers()
    assert {one.id: one.configured for one in found} == {
        "openai": True,
        "anthropic": True,
        "zai": False,
        "generic": True,
    }
    assert asyncio.run(asked()) == found
    assert json.loads(outlast("providers", "--json").stdout)["providers"] == [one.document() for one in found]
    printed = outlast("providers").stdout.splitlines()
    assert [line.split()[:3] for line in printed if line.startswith("zai ")] == [["zai", "not", "set"]]
    assert [line.split() for line in printed if "gpt-4.1*" in line] == [
        ["openai/gpt-4.1*", "1,047,576", "32,768", "effort"]
    ]


def test_the_command_says_which_models_there_are_when_one_is_unknown(outlast: Outlast) -> None:
    refused = outlast("chat", "--provider", "zai", "--model", "gml-4.7", "Hello?")
    assert refused.exit_code == 2
    said = " ".join(refused.stderr.split())
    assert "has no model 'gml-4.7' that is known here. The names of its models begin with: glm-5," in said
    assert 'OUTLAST_MODEL_LIMITS={"zai/gml-4.7": {}}' in said
