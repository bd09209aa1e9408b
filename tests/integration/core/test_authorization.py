"""MCP authorization: the SDK's own OAuth client, from a 401 to the result of a tool, in both protocol revisions."""

import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import httpx2
import pytest
from mcp.client.auth import OAuthClientProvider
from mcp.client.client import Client as McpClient
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl
from temporalio.client import Client

from tests.support.calls.tasks import sleeper_call
from tests.support.eventually import eventually
from tests.support.http.api_client import bearer
from tests.support.http.in_process import listening
from tests.support.http.issuer import LocalIssuer, running_issuer
from tests.support.stacks.api_server import api_settings, serving_api
from tests.support.stacks.sandbox import Sandbox
from tests.support.whole_file import replace_text

WELL_KNOWN = "/.well-known/oauth-protected-resource"
REDIRECT = "http://127.0.0.1:1/callback"
BEGINNING = "outlast:read outlast:call outlast:cancel"


class Person:
    """Somebody with a client: keeps its tokens, and follows it to the authorization server."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None
        self._returned: AuthorizationCodeResult | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info.model_copy(update={"scope": None})

    async def agree(self, address: str) -> None:
        async with httpx.AsyncClient(trust_env=False, timeout=180) as browser:
            answer = await browser.get(address)
        query = parse_qs(urlsplit(answer.headers["location"]).query)
        self._returned = AuthorizationCodeResult(code=query["code"][0], state=query["state"][0], iss=query["iss"][0])

    async def come_back(self) -> AuthorizationCodeResult:
        assert self._returned is not None
        return self._returned

    @asynccontextmanager
    async def connected(self, url: str, mode: str) -> AsyncIterator[McpClient]:
        registration = OAuthClientMetadata(
            redirect_uris=[AnyUrl(REDIRECT)], client_name="test", token_endpoint_auth_method="none"
        )
        auth = OAuthClientProvider(url, registration, self, self.agree, self.come_back)
        async with AsyncExitStack() as stack:
            http = await stack.enter_async_context(httpx2.AsyncClient(auth=auth, trust_env=False, timeout=180))
            yield await stack.enter_async_context(McpClient(streamable_http_client(url, http_client=http), mode=mode))


@pytest.fixture
async def issuer() -> AsyncIterator[LocalIssuer]:
    async with running_issuer() as issuer:
        yield issuer


@pytest.fixture
def own() -> tuple[socket.socket, str]:
    """The socket of the API, and the address of its `/mcp`."""
    listener, url = listening()
    return listener, f"{url}/mcp"


@pytest.fixture
async def api(
    temporal: Client, sandbox: Sandbox, issuer: LocalIssuer, own: tuple[socket.socket, str], tmp_path: Path
) -> AsyncIterator[httpx.AsyncClient]:
    settings = api_settings(
        sandbox,
        oauth_issuer=issuer.url,
        oauth_audience=own[1],
        audit_file=tmp_path / "audit.jsonl",
        default_tools="actors,docs,cancel-task",
    )
    async with serving_api(temporal, settings, whole=True, listener=own[0]) as api:
        yield api


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_the_sdks_client_goes_from_a_challenge_to_a_tools_result_and_steps_up(
    api: httpx.AsyncClient, issuer: LocalIssuer, own: tuple[socket.socket, str], mode: str
) -> None:
    challenged = await api.post("/mcp", json={})
    metadata = str(api.base_url).rstrip("/") + f"{WELL_KNOWN}/mcp"
    assert challenged.status_code == 401
    assert challenged.headers["www-authenticate"] == (
        f'Bearer realm="outlast", scope="{BEGINNING}", resource_metadata="{metadata}"'
    )
    for path in (metadata, WELL_KNOWN):
        found = await api.get(path, headers={"Origin": "https://client.example"})
        assert found.headers["access-control-allow-origin"] == "*"
        assert found.json()["resource"] == own[1]
        assert found.json()["authorization_servers"] == [issuer.url]

    person, issuer.subject, issuer.consents = Person(), f"ann-{mode}", {"outlast:read"}
    async with person.connected(f"{own[1]}?tools=actors,list-tasks", mode) as client:
        assert "call-actor" in {tool.name for tool in (await client.list_tools()).tools}
        assert issuer.asked[-1].resource == own[1]
        assert issuer.asked[-1].scopes == BEGINNING.split()
        # What the person did not agree to at first is asked for when it is needed.
        issuer.consents = None
        arguments = {"actor": "outlast/sleeper", "input": {"seconds": 0}}
        result = await client.call_tool("call-actor", arguments)
        assert result.structured_content is not None
        assert result.structured_content["status"] == "SUCCEEDED"
        assert len(issuer.asked) == 2
        assert "outlast:call" in (issuer.asked[-1].scopes or [])
    assert person.tokens is not None
    mine = (await api.get("/v1/tasks", headers=bearer(person.tokens.access_token))).json()["tasks"]
    assert [task["tool"] for task in mine] == ["call-actor"]


async def test_tokens_count_in_rest_as_the_policy_maps_them_and_challenges_name_what_is_missing(
    temporal: Client, sandbox: Sandbox, issuer: LocalIssuer, tmp_path: Path
) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text(
        "[oauth]\n"
        'claims = ["scope", "realm_access.roles", "https://issuer.example/roles"]\n'
        "[oauth.scopes]\n"
        '"operators" = ["admin", "read"]\n"tools.use" = ["call", "read"]\n"tools.all" = ["call", "read", "cancel"]\n'
        '[callers."jwt:dora"]\nlimits = { actors_per_connection = 1 }\n'
    )
    audience = "https://outlast.example/outlast/mcp"
    settings = api_settings(
        sandbox, oauth_issuer=issuer.url, oauth_audience=f"{audience}, api://other", policy_file=policy
    )
    async with serving_api(temporal, settings, whole=True) as api:

        async def answer(method: str, path: str, scope: str = "", **changed: Any) -> httpx.Response:
            token = issuer.token(audience, scope, **changed)
            return await api.request(
                method, path, headers=bearer(token), json=sleeper_call(0) if method == "POST" else None
            )

        refused = await answer("POST", "/v1/tasks", "unknown")
        assert (refused.status_code, refused.json()["type"]) == (403, "urn:outlast:problem:forbidden-scope")
        where = 'resource_metadata="https://outlast.example/.well-known/oauth-protected-resource/outlast/mcp"'
        assert refused.headers["www-authenticate"] == (
            f'Bearer realm="outlast", error="insufficient_scope", scope="tools.use", {where}'
        )
        refused = await answer("POST", "/v1/tasks/nothing/cancel", "tools.use")
        assert 'scope="tools.all"' in refused.headers["www-authenticate"]
        started = await answer("POST", "/v1/tasks", "openid tools.use", sub="dora")
        assert started.status_code == 201, started.text
        path = f"/v1/tasks/{started.json()['id']}"
        assert (await answer("GET", path, "tools.use", sub="dora", aud=["x", "api://other"])).status_code == 200
        # A subject is a caller of its own.
        assert (await answer("GET", path, "tools.use", sub="emil")).status_code == 404
        roles: tuple[dict[str, Any], ...] = (
            {"realm_access": {"roles": ["operators"]}},
            {"https://issuer.example/roles": ["operators"]},
        )
        for claims in roles:
            assert (await answer("GET", "/v1/usage?caller=key:bob", **claims)).status_code == 200
        assert (await answer("GET", "/v1/usage?caller=key:bob", "tools.all")).status_code == 403
        over = await answer("GET", "/mcp?tools=call-actor,get-actor-run", "tools.use", sub="dora")
        assert (over.status_code, "you may name 1" in over.text) == (400, True)
        supported = (await api.get(f"{WELL_KNOWN}/outlast/mcp")).json()["scopes_supported"]
        assert supported == ["operators", "tools.use", "tools.all"]
        # Nobody is asked to consent to what an operator may do in order to begin.
        assert 'scope="tools.use tools.all"' in (await api.get("/v1/tasks")).headers["www-authenticate"]
        replace_text(policy, '[oauth]\nclaims = ["roles"]\n[oauth.scopes]\n"agents" = ["read"]\n')

        async def reads_by_role() -> bool:
            return (await answer("GET", "/v1/tasks", roles="agents")).status_code == 200

        await eventually(reads_by_role)
        # Roles cannot be asked for.
        assert "scope" not in (await api.get("/v1/tasks")).headers["www-authenticate"]


async def test_subjects_and_sessions_with_colons_do_not_meet(
    temporal: Client, sandbox: Sandbox, issuer: LocalIssuer
) -> None:
    audience = "https://outlast.example/mcp"
    settings = api_settings(sandbox, oauth_issuer=issuer.url, oauth_audience=audience)
    async with serving_api(temporal, settings, whole=True) as api:
        # `session:jwt:a:b:c` would be session c of a:b, and session b:c of a.
        whose = bearer(issuer.token(audience, BEGINNING, sub="a:b"))
        made = await api.post("/v1/sessions", headers=whose, json={"session_id": "c"})
        assert made.status_code == 201, made.text
        assert (await api.get("/v1/sessions/c", headers=whose)).status_code == 200
        others = bearer(issuer.token(audience, BEGINNING, sub="a"))
        assert (await api.get("/v1/sessions/b:c", headers=others)).status_code == 404
        called = sleeper_call(0) | {"session_id": "b:c"}
        assert (await api.post("/v1/tasks", headers=others, json=called)).status_code == 201
        assert (await api.get("/v1/sessions/b:c", headers=others)).status_code == 200
        # The longest names there may be still fit into Temporal's ids.
        longest = bearer(issuer.token(audience, BEGINNING, sub=":" * 150))
        assert (await api.post("/v1/sessions", headers=longest, json={"session_id": "s" * 100})).status_code == 201
        called = sleeper_call(0) | {"session_id": "t" * 200}
        assert (await api.post("/v1/tasks", headers=longest, json=called)).status_code == 201
