"""Prompts ask the user for what they were not given, in both protocol versions."""

from typing import Any

import pytest
from mcp import Client, MCPError
from mcp_types import ElicitRequestFormParams, ElicitResult, TextContent

from tests.support.http.mcp_wire import MODERN
from tests.support.stacks.service import Service

REVISIONS = pytest.mark.parametrize("revision", ["legacy", MODERN])


def said(result: Any) -> str:
    (message,) = result.messages
    assert isinstance(message.content, TextContent)
    return message.content.text


@REVISIONS
async def test_a_missing_argument_is_asked_for(service: Service, revision: str) -> None:
    asked: list[ElicitRequestFormParams] = []

    async def elicit(context: Any, params: Any) -> ElicitResult:  # given by name
        asked.append(params)
        return ElicitResult(action="accept", content={"goal": "a summary"})

    async with Client(f"{service.api_url}/mcp", mode=revision, elicitation_callback=elicit) as mcp:
        prompt = await mcp.get_prompt("run-actor", {"actor": "outlast/sleeper"})
    assert "Run the Actor outlast/sleeper for me. What I want: a summary" in said(prompt)
    (question,) = asked
    assert list(question.requested_schema["properties"]) == ["goal"], "what was given is not asked for"


@REVISIONS
async def test_a_user_who_declines_gets_no_prompt(service: Service, revision: str) -> None:
    async def decline(context: Any, params: Any) -> ElicitResult:  # given by name
        return ElicitResult(action="decline")

    async with Client(f"{service.api_url}/mcp", mode=revision, elicitation_callback=decline) as mcp:
        with pytest.raises(MCPError, match="needs these arguments: actor, goal"):
            await mcp.get_prompt("run-actor", {})


@REVISIONS
async def test_a_client_that_cannot_ask_is_told_what_is_missing(service: Service, revision: str) -> None:
    async with Client(f"{service.api_url}/mcp", mode=revision) as mcp:
        with pytest.raises(MCPError, match="needs these arguments: goal") as refused:
            await mcp.get_prompt("run-actor", {"actor": "outlast/sleeper"})
    assert refused.value.code == -32602
