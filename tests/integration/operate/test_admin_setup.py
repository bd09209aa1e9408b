"""`outlast admin setup` makes a namespace ready, over mutual TLS; a worker and an API work there at once."""

import json
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, RemoveSearchAttributesRequest
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, DescribeNamespaceResponse
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from outlast.api.temporal.namespace_setup import set_up_namespace
from outlast.worker.search_attributes import DATETIME, WANTED, register_search_attributes
from tests.support.calls.tasks import completed, sleeper_call
from tests.support.eventually import eventually
from tests.support.processes.terminal import outlast_command
from tests.support.stacks.sandbox import Sandbox
from tests.support.stacks.service import running_service
from tests.support.stacks.stack_config import clean_environment
from tests.support.stacks.tls_front import TlsFront, tls_front


def setup(front: TlsFront, namespace: str, *options: str, **changed: str) -> tuple[int, dict[str, Any]]:
    """Exit code and answer of the command, in a process of its own."""
    environment = clean_environment(**{**front.environment, "TEMPORAL_NAMESPACE": namespace, **changed})
    command = outlast_command("admin", "setup", "--json", *options)
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=180)
    return ended.returncode, json.loads(ended.stdout)


def outcomes(answer: dict[str, Any]) -> list[str]:
    return [step["outcome"] for step in answer["steps"]]


async def described(client: Client, namespace: str) -> DescribeNamespaceResponse:
    return await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=namespace))


async def test_a_namespace_is_made_ready_and_calls_end_in_it(
    temporal: Client, sandbox: Sandbox, tmp_path: Path
) -> None:
    namespace = f"fresh-{uuid4().hex[:8]}"
    with tls_front(temporal.service_client.config.target_host, tmp_path) as front:
        code, first = setup(front, namespace)
        assert (code, first["ok"], outcomes(first)) == (0, True, ["made", "there", "made"]), first
        before = await described(temporal, namespace)
        assert before.config.workflow_execution_retention_ttl.ToTimedelta() == timedelta(days=30)

        code, second = setup(front, namespace)
        assert (code, outcomes(second)) == (0, ["there", "there", "there"]), second
        assert await described(temporal, namespace) == before

        tls = {name: value for name, value in front.environment.items() if name != "TEMPORAL_ADDRESS"}
        with running_service(tmp_path, front.address, sandbox, namespace=namespace, **tls) as service:
            async with service.http() as api:
                await completed(api, sleeper_call(seconds=0))

        code, longer = setup(front, namespace, "--retention", "40d")
        assert (code, outcomes(longer)) == (0, ["there", "made", "there"])
        assert outcomes(setup(front, namespace)[1]) == ["there", "there", "there"], "it is never shortened"

        code, unknown = setup(front, namespace, TEMPORAL_TLS_CLIENT_CERT_PATH="", TEMPORAL_TLS_CLIENT_KEY_PATH="")
        assert code == 3
        assert "API key or certificate" in unknown["error"]["hint"]


async def ready(temporal: Client, days: int = 1) -> Client:
    """A namespace of its own that is ready."""
    address = temporal.service_client.config.target_host
    client = await Client.connect(address, namespace=f"own-{uuid4().hex[:8]}")
    steps = await set_up_namespace(client, retention=timedelta(days=days))
    assert all(step.is_done for step in steps), steps
    return client


async def test_an_attribute_of_another_type_is_told(temporal: Client) -> None:
    client = await ready(temporal)
    removed = RemoveSearchAttributesRequest(namespace=client.namespace, search_attributes=["OutlastTool"])
    await client.operator_service.remove_search_attributes(removed)
    other = AddSearchAttributesRequest(namespace=client.namespace, search_attributes={"OutlastTool": DATETIME})
    await client.operator_service.add_search_attributes(other)

    async def told() -> bool:
        step = (await set_up_namespace(client, retention=timedelta(days=1)))[-1]
        assert (step.outcome, "OutlastTool has to be Keyword" in step.detail) == ("wrong", True), step
        return True

    await eventually(told, interval_seconds=0.5)


def refuse_changes(client: Client, monkeypatch: pytest.MonkeyPatch, *, lists: bool = True) -> None:
    """From now on the server lets this credential look and change nothing, as Temporal Cloud does."""

    async def refuse(*_: object, **__: object) -> None:
        raise RPCError("Request unauthorized.", RPCStatusCode.PERMISSION_DENIED, b"")

    changing = [
        (client.workflow_service, "register_namespace"),
        (client.workflow_service, "update_namespace"),
        (client.operator_service, "add_search_attributes"),
    ]
    for service, name in changing + ([] if lists else [(client.operator_service, "list_search_attributes")]):
        monkeypatch.setattr(service, name, refuse)


async def test_what_the_credential_may_not_do_is_told_with_its_commands(
    temporal: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await ready(temporal)
    removed = RemoveSearchAttributesRequest(namespace=client.namespace, search_attributes=["OutlastReleasedAt"])
    await client.operator_service.remove_search_attributes(removed)
    refuse_changes(client, monkeypatch)
    name = client.namespace

    async def refused() -> bool:
        _, retention, attributes = await set_up_namespace(client, retention=timedelta(days=30))
        assert retention.commands == (f"temporal operator namespace update --namespace {name} --retention 720h",)
        create = f"temporal operator search-attribute create --namespace {name}"
        assert attributes.commands == (f"{create} --name OutlastReleasedAt --type Datetime",), attributes
        return True

    await eventually(refused, interval_seconds=0.5)
    with pytest.raises(RuntimeError, match=r"lacks the search attributes OutlastReleasedAt \(Datetime\)"):
        await register_search_attributes(client)

    refuse_changes(client, monkeypatch, lists=False)
    told = (await set_up_namespace(client, retention=timedelta(days=1)))[-1]
    assert (told.outcome, len(told.commands)) == ("refused", len(WANTED))
    await register_search_attributes(client)  # a worker goes on: the attributes may be there

    missing = await Client.connect(temporal.service_client.config.target_host, namespace="not-there")
    refuse_changes(missing, monkeypatch)
    (only,) = await set_up_namespace(missing, retention=timedelta(days=30))
    assert only.outcome == "refused"
    assert only.commands == ("temporal operator namespace create --namespace not-there --retention 720h",)


async def test_temporal_cloud_has_commands_of_its_own(temporal: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    client = await ready(temporal)
    refuse_changes(client, monkeypatch, lists=False)
    monkeypatch.setattr(client.service_client.config, "target_host", "eu-west-1.aws.api.temporal.io:7233")
    _, retention, attributes = await set_up_namespace(client, retention=timedelta(days=30))
    named = f"--namespace {client.namespace}"
    assert retention.commands == (f"tcld namespace retention set {named} --retention-days 30",)
    assert attributes.commands[0].startswith(f"tcld namespace search-attributes add {named} --search-attribute Outlast")
    assert all(f"--search-attribute {name}=" in attributes.commands[0] for name in WANTED)
