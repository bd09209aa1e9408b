"""`get-actor-run-list`: the caller's runs and nobody else's."""

import httpx
import pytest
from apify_client import ApifyClient

from tests.integration.tools.conftest import ToolCaller
from tests.support.stacks.sandbox import Sandbox


@pytest.fixture
def run_ids(platform: ApifyClient) -> list[str]:
    """Runs of the sleeper, newest first; the first of them failed."""
    ended = [
        platform.actor("outlast/sleeper").call(run_input={"seconds": 0.05, "steps": 1, **more}, logger=None)
        for more in ({}, {}, {"failWith": {"exitCode": 3}})
    ]
    return [run.id for run in reversed(ended) if run is not None]


async def test_runs_are_listed_newest_first_in_pages(call: ToolCaller, run_ids: list[str]) -> None:
    page = await call("get-actor-run-list", limit=2)
    assert [run["runId"] for run in page.structured["runs"]] == run_ids[:2]
    assert page.structured["nextOffset"] == 2
    assert "call get-actor-run-list with offset 2." in page.text
    oldest = await call("get-actor-run-list", limit=1, desc=False)
    assert oldest.structured["runs"][0]["startedAt"] <= page.structured["runs"][1]["startedAt"]


async def test_runs_are_filtered_by_status_and_actor(call: ToolCaller, run_ids: list[str]) -> None:
    failed = await call("get-actor-run-list", status="FAILED", actor="outlast~sleeper", limit=1)
    assert failed.structured["runs"][0]["runId"] == run_ids[0]
    other = await call("get-actor-run-list", actor="outlast/big-table")
    assert other.structured["runs"] == []
    assert other.text == "There are no runs."
    unknown = await call("get-actor-run-list", actor="nobody/nothing")
    assert unknown.error is not None
    assert unknown.error["category"] == "not_found"
    assert await call.violations("get-actor-run-list", status="DONE", limit=0) == ["/limit", "/status"]


async def test_another_account_sees_none_of_them(
    http: httpx.AsyncClient, sandbox: Sandbox, platform: ApifyClient, run_ids: list[str]
) -> None:
    token = sandbox.add_user("somebody-else").token
    headers = {"Authorization": f"Bearer {token}"}
    answer = await http.post("/v1/tools/get-actor-run-list/call", json={"arguments": {}}, headers=headers)
    assert answer.json()["result"]["structured"]["runs"] == []
    dataset_id = platform.datasets().get_or_create().id
    body = {"arguments": {"datasetId": dataset_id}}
    foreign = (await http.post("/v1/tools/get-dataset/call", json=body, headers=headers)).json()["result"]
    assert foreign["error"]["category"] == "not_found"
