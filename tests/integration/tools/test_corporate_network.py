"""All calls to other machines use the proxy and certificates of the environment, and their targets are checked."""

import asyncio
import json
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from outlast.activities.failures.classify import ToolFailure
from outlast.activities.failures.exceptions import ProviderError
from outlast.activities.mcp_servers.sessions import client_of, http_transport, list_tools
from outlast.activities.web.address_rules import AddressNotAllowed, AddressRules, WebAddress
from outlast.activities.web.fetcher import HTML_TYPES, WebFetcher
from outlast.activities.webhooks.posting import PostOutcome, WebhookPoster
from outlast.api.access.oauth.access_tokens import Issuer
from outlast.worker.providers import providers_of
from outlast.worker.settings import WorkerSettings
from tests.support.http.corporate import CorporateNetwork, corporate_network
from tests.support.http.issuer import SigningKey
from tests.support.http.pages import WebServer, serving_pages
from tests.support.http.webhooks import receiving_webhooks
from tests.support.mcp import effects_server
from tests.support.providers.model_requests import order

HOST = "there.corp.test"
PUBLIC, PRIVATE = "8.8.8.8", "10.0.0.7"


class Silent:
    def text(self, piece: str) -> None: ...

    def arguments(self, call_id: str, tool: str, piece: str) -> None: ...


@pytest.fixture
def pages() -> Iterator[WebServer]:
    with serving_pages() as server:
        server.page("/page", "<h1>Inside</h1>")
        yield server


@contextmanager
def behind_proxy(folder: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[CorporateNetwork]:
    with corporate_network(folder, port, HOST, "api.corp.test") as network:
        for name, value in network.environment.items():
            monkeypatch.setenv(name, value)
        yield network


@pytest.fixture
def network(pages: WebServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CorporateNetwork]:
    with behind_proxy(tmp_path, int(pages.url.rpartition(":")[2]), monkeypatch) as network:
        yield network


def resolving(monkeypatch: pytest.MonkeyPatch, *answers: str) -> list[str]:
    """Resolve every name to each of `answers` in turn; without answers, no name is known."""
    left, asked = list(answers), list[str]()

    def resolved(host: str, port: int, *_: object, **__: object) -> list[Any]:
        asked.append(host)
        if not left:
            raise socket.gaierror("unknown")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (left.pop(0), port))]

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    return asked


async def fetched(url: str, **options: Any) -> str:
    async with WebFetcher(AddressRules(), **options) as fetcher:
        return (await fetcher.fetch(WebAddress.parse(url), accept=HTML_TYPES)).text


async def test_a_page_comes_through_the_proxy_from_the_address_that_was_checked(
    network: CorporateNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second look-up, which a hostile name server would answer differently, does not happen here nor in the proxy."""
    asked = resolving(monkeypatch, PUBLIC, PRIVATE)
    assert await fetched(f"https://{HOST}/page") == "<h1>Inside</h1>"
    assert (network.asked, asked) == ([f"CONNECT {PUBLIC}:443"], [HOST])


async def test_plain_http_is_tunnelled_to_the_checked_address_as_well(
    network: CorporateNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolving(monkeypatch, PUBLIC)
    assert await fetched(f"http://{HOST}/page") == "<h1>Inside</h1>"
    assert network.asked == [f"CONNECT {PUBLIC}:80"]


@pytest.mark.parametrize("proxy_resolves", [False, True])
async def test_private_targets_are_refused_before_the_proxy_is_asked(
    network: CorporateNetwork, monkeypatch: pytest.MonkeyPatch, proxy_resolves: bool
) -> None:
    for url in ("http://2130706433/page", "https://[::ffff:169.254.169.254]/page", f"https://{HOST}/page"):
        if HOST in url:
            resolving(monkeypatch, PRIVATE)
        with pytest.raises(AddressNotAllowed):
            await fetched(url, proxy_resolves=proxy_resolves)
    assert network.asked == []


async def test_redirects_behind_the_proxy_are_checked(
    network: CorporateNetwork, pages: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages.redirect("/away", "https://metadata.corp.test/page")
    resolving(monkeypatch, PUBLIC, "169.254.169.254")
    with pytest.raises(AddressNotAllowed):
        await fetched(f"https://{HOST}/away")
    assert network.asked == [f"CONNECT {PUBLIC}:443"]


async def test_a_name_that_only_the_proxy_knows_needs_the_operators_consent(
    network: CorporateNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolving(monkeypatch)
    with pytest.raises(ToolFailure, match="no host"):
        await fetched(f"https://{HOST}/page")
    assert network.asked == []
    assert await fetched(f"https://{HOST}/page", proxy_resolves=True) == "<h1>Inside</h1>"
    assert await fetched(f"http://{HOST}/page", proxy_resolves=True) == "<h1>Inside</h1>"
    assert network.asked == [f"CONNECT {HOST}:443", f"GET http://{HOST}/page"]


async def test_the_password_of_the_proxy_goes_to_the_proxy_alone(
    network: CorporateNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", f"http://anna:pass%20word@127.0.0.1:{network.proxy_port}")
    resolving(monkeypatch, PUBLIC, PUBLIC)
    await fetched(f"https://{HOST}/page")
    assert network.authorizations == ["Basic YW5uYTpwYXNzIHdvcmQ="]
    network.refuses = True
    with pytest.raises(ToolFailure, match="the proxy answered 403") as caught:
        await fetched(f"https://{HOST}/page")
    assert "pass" not in str(caught.value)


async def test_exempt_names_are_reached_directly(network: CorporateNetwork, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "other.test, .corp.test:443")
    resolving(monkeypatch, "127.0.0.1")
    with pytest.raises(AddressNotAllowed):
        await fetched(f"https://{HOST}/page")
    assert network.asked == []


async def test_the_authority_of_the_company_is_needed(
    network: CorporateNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    resolving(monkeypatch, PUBLIC)
    with pytest.raises(ToolFailure, match="connection failed"):
        await fetched(f"https://{HOST}/page")


async def test_webhooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with receiving_webhooks() as receiver:
        port = int(receiver.url.split(":")[2].partition("/")[0])
        with behind_proxy(tmp_path, port, monkeypatch) as network:
            resolving(monkeypatch, PUBLIC, PRIVATE)
            async with WebhookPoster(AddressRules(), timeout_seconds=20) as poster:
                assert (await poster.post(f"https://{HOST}/hook", b'{"a":1}', {})).status == 200
                assert (await poster.post(f"https://{HOST}/hook", b"{}", {})).outcome is PostOutcome.FORBIDDEN
                network.refuses = True
                resolving(monkeypatch, PUBLIC)
                refused = await poster.post(f"https://{HOST}/hook", b"{}", {})
                assert refused.message == "It cannot be reached: the proxy answered 403."
            assert receiver.received[0].raw == b'{"a":1}'
            assert network.asked == [f"CONNECT {PUBLIC}:443"] * 2


async def test_mcp_servers_and_standby_actors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = effects_server.http_server()
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        with behind_proxy(tmp_path, server.server_port, monkeypatch) as network:
            resolving(monkeypatch)  # the operator wrote the address: the proxy may be the only one to know it
            transport = http_transport(f"https://{HOST}/mcp", {}, rules=AddressRules(allow_private=True))
            async with client_of(transport, None) as client:
                assert (await client.list_tools()).tools
            with suppress(ToolFailure):  # this server accepts no token
                await list_tools(f"https://{HOST}/mcp", SecretStr("token"))
            assert set(network.asked) == {f"CONNECT {HOST}:443"}
            before = len(network.asked)
            resolving(monkeypatch, "169.254.169.254")
            with pytest.raises(AddressNotAllowed):
                async with http_transport(f"https://{HOST}/mcp", {}, rules=AddressRules(allow_private=True)):
                    pass
            assert len(network.asked) == before
    finally:
        server.shutdown()
        server.server_close()


PLATFORM = """
import asyncio
from contextlib import suppress
from datetime import timedelta

from pydantic import SecretStr

from outlast.activities.contracts import Caller
from outlast.activities.platform.apify_platform import ApifyPlatform
from outlast.activities.secrets import SecretSealer

platform = ApifyPlatform(
    api_base_url="https://api.corp.test",
    operator_token=SecretStr("token"),
    sealer=SecretSealer.ephemeral(),
    request_timeout=timedelta(seconds=20),
)
with suppress(ValueError):  # the model of the client wants more fields
    asyncio.run(platform.client(Caller(id="key:anna")).user().get())
"""


async def test_the_platform(network: CorporateNetwork, pages: WebServer) -> None:
    """In a process of its own: its HTTP library reads certificates once."""
    pages.page("/v2/users/me", json.dumps({"data": {"id": "u1", "username": "anna"}}), "application/json")
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", PLATFORM)
    assert await process.wait() == 0
    assert pages.asked == ["/v2/users/me"]
    assert network.asked == ["CONNECT api.corp.test:443"]


@pytest.mark.parametrize("provider_id", ["openai", "anthropic", "generic"])
async def test_models(network: CorporateNetwork, provider_id: str) -> None:
    base_url = f"https://{HOST}/v1"
    settings = WorkerSettings.model_validate(
        {f"{provider_id}_api_key": "sk-0123456789", f"{provider_id}_base_url": base_url}
    )
    provider = providers_of(settings)[provider_id]
    with pytest.raises(ProviderError) as caught:
        await provider.call(order(provider_id), Silent())
    assert caught.value.status == 501  # from behind the proxy: this web server has no POST
    assert network.asked == [f"CONNECT {HOST}:443"]
    await provider.close()


async def test_the_authorization_server_of_the_api(network: CorporateNetwork, pages: WebServer) -> None:
    url = f"https://{HOST}"
    metadata = {"issuer": url, "jwks_uri": f"{url}/keys"}
    pages.page("/.well-known/oauth-authorization-server", json.dumps(metadata), "application/json")
    pages.page("/keys", json.dumps({"keys": [SigningKey("ES256").public]}), "application/json")
    assert (await Issuer(url).keys()).keys
    assert set(network.asked) == {f"CONNECT {HOST}:443"}
