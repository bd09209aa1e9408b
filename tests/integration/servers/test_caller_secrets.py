"""Servers with `${caller:NAME}`: each caller calls them with its own secret, which stays its own."""

import json
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from temporalio.client import Client

from tests.support.http.mcp_wire import MODERN, Wire
from tests.support.mcp import secret_server
from tests.support.mcp.secret_server import SecretServer, digest, serving_secrets
from tests.support.planted_secrets import histories
from tests.support.stacks.fixtures import service_fixture, temporal_fixture
from tests.support.stacks.service import Service

ANN, BOB = "ann-0123456789abcdef", "bob-0123456789abcdef"
OF_POLICY = "bobs-secret-of-the-policy-file"
OF_REQUEST, OTHER = "anns-secret-of-the-request", "anns-second-secret"


@pytest.fixture(scope="module")
def remote() -> Iterator[SecretServer]:
    with serving_secrets() as server:
        yield server


@pytest.fixture(scope="module")
def secret_settings(remote: SecretServer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("secrets")
    local = {"command": sys.executable, "args": [secret_server.__file__], "env": {"TOKEN": "${caller:DESK_TOKEN}"}}
    far = {"url": f"{remote.url}/mcp", "headers": {"Authorization": "Bearer ${caller:CLOUD_TOKEN}"}}
    stateful = {**local, "outlast": {"session": "shared"}}
    file, policy, secret = folder / "servers.json", folder / "policy.toml", folder / "bob.txt"
    file.write_text(json.dumps({"mcpServers": {"desk": local, "cloud": far, "stateful": stateful}}))
    secret.write_text(f"{OF_POLICY}\n")
    policy.write_text(
        f'[callers."key:bob".server_secrets]\nDESK_TOKEN = {{file = "{secret}"}}\nCLOUD_TOKEN = {{file = "{secret}"}}\n'
    )
    return {"OUTLAST_MCP_SERVERS_FILE": str(file), "OUTLAST_POLICY_FILE": str(policy)}


service = service_fixture(scope="module", callers={"ann": ANN, "bob": BOB}, settings_from="secret_settings")
temporal = temporal_fixture()


def of_ann(service: Service, **secrets: str) -> httpx.AsyncClient:
    http = service.http(ANN)
    http.headers.update({f"Outlast-Secret-{name.replace('_', '-')}": value for name, value in secrets.items()})
    return http


async def called(http: httpx.AsyncClient, tool: str) -> dict[str, Any]:
    answer = await http.post(f"/v1/tools/{tool}/call", json={"arguments": {}})
    assert answer.status_code == 200, answer.text
    return answer.json()["result"]


async def test_each_caller_has_its_own_process_with_its_own_secret(service: Service) -> None:
    async with of_ann(service, DESK_TOKEN=OF_REQUEST) as ann, service.http(BOB) as bob:
        for count in (1, 2):
            assert (await called(ann, "stateful__who"))["structured"] == {"who": digest(OF_REQUEST), "calls": count}
            assert (await called(bob, "stateful__who"))["structured"] == {"who": digest(OF_POLICY), "calls": count}
    async with of_ann(service, DESK_TOKEN=OTHER) as ann:
        assert (await called(ann, "stateful__who"))["structured"] == {"who": digest(OTHER), "calls": 1}


async def test_a_list_that_needs_no_secret_is_everybodys(service: Service) -> None:
    async with service.http(ANN) as ann:
        names = {tool["name"] for tool in (await ann.get("/v1/tools")).json()["tools"]}
        assert {"desk__who", "desk__change"} <= names
        assert not any("__of-" in name for name in names)
        refused = (await called(ann, "desk__who"))["error"]
        assert refused["category"] == "authentication"
        assert "needs a secret of the caller: DESK_TOKEN. The tool was not called." in refused["message"]
        assert "Outlast-Secret-Desk-Token" in refused["hint"]


async def test_a_server_that_lists_nothing_without_a_secret_is_listed_for_each_caller(
    service: Service, remote: SecretServer
) -> None:
    async with service.http(ANN) as nobody, of_ann(service, CLOUD_TOKEN=OF_REQUEST) as ann, service.http(BOB) as bob:
        assert not any(tool["name"].startswith("cloud") for tool in (await nobody.get("/v1/tools")).json()["tools"])
        refused = await nobody.post("/v1/tools/cloud__who/call", json={"arguments": {}})
        assert refused.status_code == 422
        assert "CLOUD_TOKEN" in refused.text
        for http, secret, other in ((ann, OF_REQUEST, OF_POLICY), (bob, OF_POLICY, OF_REQUEST)):
            names = {tool["name"] for tool in (await http.get("/v1/tools")).json()["tools"]}
            assert f"cloud__of-{digest(secret)}" in names
            assert f"cloud__of-{digest(other)}" not in names
            assert (await called(http, "cloud__who"))["structured"]["who"] == digest(secret)
        listed = await Wire(bob, MODERN, "?tools=cloud").request("tools/list")
        assert f"cloud__of-{digest(OF_POLICY)}" in {tool["name"] for tool in listed["tools"]}
    assert not {f"Bearer {ANN}", f"Bearer {BOB}"}.intersection(remote.seen)


async def test_secrets_are_in_no_history_log_metric_or_answer(service: Service, temporal: Client) -> None:
    async with of_ann(service, DESK_TOKEN=OF_REQUEST, CLOUD_TOKEN=OF_REQUEST) as ann:
        for server in ("desk", "cloud"):
            leaked = await called(ann, f"{server}__leak")
            assert OF_REQUEST not in json.dumps(leaked)
            assert "[secret " in leaked["raw_content"][0]["text"]
        metrics = (await ann.get("/metrics")).text + (await ann.get(service.worker_metrics_url)).text
    logs = "".join(path.read_text() for path in service.folder.glob("*.log"))
    assert "started with [secret DESK_TOKEN]" in logs
    found = await histories(temporal)
    for secret in (OF_REQUEST, OTHER, OF_POLICY):
        assert secret not in metrics
        assert secret not in logs
        assert not [name for name, content in found.items() if secret.encode() in content]


async def test_wrong_headers_are_refused(service: Service) -> None:
    async with service.http(ANN) as ann:
        for name in ("Outlast-Secret-", "Outlast-Secret-1st", "Outlast-Secret-A.B"):
            assert (await ann.get("/v1/tools", headers={name: "value"})).status_code == 400
        many = {f"Outlast-Secret-N{number}": "value" for number in range(17)}
        assert (await ann.get("/v1/tools", headers=many)).status_code == 400


async def test_a_wrong_secret_of_one_caller_does_not_stop_others(service: Service, remote: SecretServer) -> None:
    remote.accepted = {OF_POLICY}
    try:
        async with of_ann(service, CLOUD_TOKEN="a-wrong-secret") as ann, service.http(BOB) as bob:
            refused = await ann.post("/v1/tools/cloud__who/call", json={"arguments": {}})
            assert "401" in refused.text
            assert (await called(bob, "cloud__who"))["structured"]["who"] == digest(OF_POLICY)
    finally:
        remote.accepted = set()
