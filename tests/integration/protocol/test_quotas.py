"""What a caller may keep: sessions, and bytes of stored outputs. What is beyond is refused with what to do."""

import shutil
from collections.abc import AsyncIterator

import httpx
import pytest
from pydantic import SecretStr
from temporalio.client import Client

from outlast.activities.outputs.output_format import scope_of
from outlast.api.access.policy.contracts import Limits
from outlast.workflows.tools.extensions import load_extensions
from tests.support.eventually import eventually
from tests.support.http.api_client import api_client
from tests.support.stacks.api_server import api_settings, serving_api
from tests.support.stacks.service import Service

load_extensions(["docs.examples.hello_tools"])

HAL, IDA, JO = ("hal-0123456789abcdef", "ida-0123456789abcdef", "jo-0123456789abcdef")
HELLO = {"tool": "hello_world", "arguments": {"name": "Hal"}}
AT_ONCE = {"options": {"output": {"threshold_bytes": 0}}}
"""Stores the output, however small it is."""


@pytest.fixture
async def url(service: Service, temporal: Client) -> AsyncIterator[str]:
    settings = api_settings(
        service.sandbox,
        data_dir=service.folder,
        api_keys=SecretStr(f"hal:{HAL},ida:{IDA},jo:{JO}"),
        limits=Limits(sessions=2, stored_bytes=1),
    )
    async with serving_api(temporal, settings) as http:
        yield str(http.base_url)


async def test_a_caller_has_so_many_sessions_and_those_go_on(url: str) -> None:
    async with api_client(url, HAL) as hal, api_client(url, JO) as jo:
        first = (await hal.post("/v1/sessions", json={})).json()["id"]
        assert (await hal.post("/v1/tasks", json={**HELLO, "session_id": "second"})).status_code == 201
        for request in (
            hal.post("/v1/sessions", json={}),
            hal.post("/v1/tasks", json={**HELLO, "session_id": "third"}),
        ):
            refused = await request
            assert (refused.status_code, refused.json()["type"]) == (429, "urn:outlast:problem:too-many-requests")
            assert int(refused.headers["retry-after"]) > 0
            assert "`sessions`" in refused.json()["detail"]
        assert (await hal.post("/v1/tasks", json={**HELLO, "session_id": first})).status_code == 201
        assert (await jo.post("/v1/sessions", json={})).status_code == 201

        async def is_deleted() -> bool:
            return (await hal.delete(f"/v1/sessions/{first}")).status_code == 204

        async def begins() -> bool:
            return (await hal.post("/v1/tasks", json={**HELLO, "session_id": "third"})).status_code == 201

        await eventually(is_deleted)
        await eventually(begins)


async def test_a_caller_whose_outputs_take_too_much_space_starts_nothing_more(service: Service, url: str) -> None:
    async with api_client(url, IDA) as ida, api_client(url, JO) as jo:
        answer = await ida.post("/v1/tasks", json={**HELLO, **AT_ONCE}, headers={"Prefer": "wait=30"})
        locator = answer.json()["result"]["locator"]

        async def refused() -> httpx.Response | None:
            response = await ida.post("/v1/tasks", json=HELLO)
            return response if response.status_code == 507 else None

        problem = (await eventually(refused, interval_seconds=0.5)).json()
        assert problem["type"] == "urn:outlast:problem:storage-full"
        assert "delete outputs" in problem["detail"]
        read = {"tool": "restore-tool-output", "arguments": {"locator": locator}}
        assert (await ida.post("/v1/tasks", json=read)).status_code == 201
        assert (await jo.post("/v1/tasks", json=HELLO)).status_code == 201
        assert 'outlast_limit_near_ratio{caller="key:ida",limit="stored_bytes"} 1.0' in (await ida.get("/metrics")).text

        # What the next sweep does with outputs that have expired or were deleted.
        shutil.rmtree(service.outputs / "parts" / scope_of("key:ida"))
        shutil.rmtree(service.outputs / "manifests" / scope_of("key:ida"))

        async def is_taken() -> bool:
            return (await ida.post("/v1/tasks", json=HELLO)).status_code == 201

        await eventually(is_taken, interval_seconds=0.5)
