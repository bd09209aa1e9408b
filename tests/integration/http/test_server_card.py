"""What clients and catalogues can learn of a server before they connect, and without a credential."""

import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from outlast.api.settings import ApiSettings
from tests.support.http.issuer import running_issuer
from tests.support.http.mcp_wire import LEGACY, MODERN, Wire
from tests.support.ports import free_port
from tests.support.stacks.api_server import connect, serving_api
from tests.support.stacks.service import SEAL_KEYS

KEY = "bob-0123456789abcdef"
CARDS = ("/mcp/server-card", "/.well-known/mcp/server-card.json")


async def served(tmp_path: Path, *, whole: bool = False, **settings: Any) -> Any:
    given = ApiSettings(data_dir=tmp_path, seal_keys=SecretStr(SEAL_KEYS), default_actors="", **settings)
    return serving_api(await connect(f"127.0.0.1:{free_port()}", lazy=True), given, whole=whole)


async def card_of(api: httpx.AsyncClient, path: str = CARDS[0]) -> dict[str, Any]:
    answer = await api.get(path, headers={"Origin": "https://catalogue.example"})
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/mcp-server-card+json")
    assert answer.headers["access-control-allow-origin"] == "*"
    return answer.json()


async def test_the_card_says_what_the_server_says_once_connected(tmp_path: Path) -> None:
    async with await served(tmp_path, whole=True) as api:
        card = await card_of(api)
        modern = await Wire(api, MODERN).request("server/discover")
        legacy = await Wire(api, LEGACY).request(
            "initialize",
            {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
        )
        base = str(api.base_url).rstrip("/")
        said = legacy["serverInfo"]
        assert (card["title"], card["version"]) == (said["title"], said["version"])
        assert card["name"] == "127.0.0.1/outlast"
        [remote] = card["remotes"]
        assert remote == {
            "type": "streamable-http",
            "url": f"{base}/mcp",
            "supportedProtocolVersions": [legacy["protocolVersion"], *modern["supportedVersions"]],
        }
        assert [await card_of(api, path) for path in CARDS] == [card, card]
        catalog = (await api.get("/.well-known/mcp/catalog.json")).json()
        assert [entry["url"] for entry in catalog["entries"]] == [f"{base}/mcp/server-card"]


async def test_who_needs_a_credential_is_told_how_to_send_it(tmp_path: Path) -> None:
    async with await served(tmp_path, api_keys=SecretStr(f"bob:{KEY}")) as api:
        card = await card_of(api)
        assert [
            (header["name"], header["isRequired"], header["isSecret"]) for header in card["remotes"][0]["headers"]
        ] == [("Authorization", True, True)]
        assert (await api.get("/mcp")).status_code == 401
        assert (await api.post("/mcp/server-card")).status_code == 401


async def test_with_an_authorization_server_the_card_names_the_address_that_tokens_are_for(tmp_path: Path) -> None:
    async with (
        running_issuer() as issuer,
        await served(tmp_path, oauth_issuer=issuer.url, oauth_audience="https://tools.example.com/mcp") as api,
    ):
        card = await card_of(api)
    assert (card["name"], card["remotes"][0]["url"]) == ("com.example.tools/outlast", "https://tools.example.com/mcp")
    assert "headers" not in card["remotes"][0]


@pytest.mark.parametrize("field", ["name", "title", "description"])
async def test_the_rules_of_the_extensions_schema(tmp_path: Path, field: str) -> None:
    """schema.json of modelcontextprotocol/experimental-ext-server-card: lengths, and the pattern of the name."""
    async with await served(tmp_path) as api:
        card = await card_of(api)
    assert 1 <= len(card[field]) <= (200 if field == "name" else 100)
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", card["name"])
    assert card["$schema"] == "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
