"""The fence around a caller on a shared account: what it lets pass, and how often it has to look."""

import json
from typing import Any

import impit
import pytest

from outlast.activities.platform.platform_fence import PlatformFence
from outlast.activities.platform.request_marks import RunOwners
from outlast.activities.secrets import SecretSealer

ROOT = "https://api.apify.test/v2/"
NEW, OLD = b"n" * 32, b"o" * 32
OWNERS = RunOwners(SecretSealer({"new": NEW, "old": OLD}))


def run(run_id: str, caller: str, owners: RunOwners = OWNERS) -> dict[str, Any]:
    agent = f"ApifyClient/3 (linux; Python/3); isAtHome/false; Outlast; outlast-op/x; {owners.mark(caller)}"
    return {"id": run_id, "meta": {"origin": "API", "userAgent": agent}}


THINGS: dict[str, Any] = {
    "actor-runs/mine": run("mine", "key:ann"),
    "actor-runs/before": run("before", "key:ann", RunOwners(SecretSealer({"old": OLD}))),
    "actor-runs/theirs": run("theirs", "key:bob"),
    "actor-runs/child": {"id": "child", "meta": {"origin": "ACTOR", "userAgent": "ApifyClient/3"}},
    "actor-runs/plain": {"id": "plain", "meta": {"origin": "WEB"}},
    "datasets/rows": {"id": "rows", "actRunId": "mine"},
    "datasets/me~named": {"id": "named", "actRunId": "mine"},
    "datasets/others": {"id": "others", "actRunId": "theirs"},
    "datasets/by-hand": {"id": "by-hand", "actRunId": None},
    "datasets/orphan": {"id": "orphan", "actRunId": "deleted"},
    "key-value-stores/kept": {"id": "kept", "actRunId": "mine"},
}
THINGS["actor-runs"] = {"items": [{**run(i, c)} for i, c in (("mine", "key:ann"), ("theirs", "key:bob"))], "total": 2}
THINGS["datasets"] = {"items": [THINGS[name] for name in THINGS if name.startswith("datasets/")], "total": 5}


class Platform:
    """Answers looks, and counts them."""

    def __init__(self) -> None:
        self.looks: list[str] = []

    async def send(self, url: str) -> impit.Response:
        path = url.removeprefix(ROOT).partition("?")[0]
        self.looks.append(path)
        if path == "actor-runs/broken":
            return impit.Response(502, content=b"{}")
        if path not in THINGS:
            return impit.Response(404, content=b"{}")
        return impit.Response(200, content=json.dumps({"data": THINGS[path]}).encode())


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "actor-runs/mine", None),
        ("GET", "actor-runs/before?waitForFinish=5", None),
        ("POST", "actor-runs/mine/abort", None),
        ("GET", "logs/mine", None),
        ("GET", "datasets/rows/items?limit=1", None),
        ("GET", "datasets/me~named", None),
        ("GET", "key-value-stores/kept/records/INPUT", None),
        ("GET", "acts/user~name", None),
        ("GET", "acts/user~name/builds/default", None),
        ("POST", "acts/user~name/runs?memory=128", None),
        ("GET", "users/me", None),
        ("GET", "actor-runs/absent", None),  # the platform says so itself
        ("GET", "actor-runs/broken", 502),
        ("GET", "actor-runs/theirs", 404),
        ("GET", "actor-runs/child", 404),
        ("GET", "actor-runs/plain", 404),
        ("POST", "actor-runs/theirs/abort", 404),
        ("GET", "logs/theirs", 404),
        ("GET", "logs/a-build", 404),
        ("GET", "datasets/others", 404),
        ("GET", "datasets/by-hand/items", 404),
        ("GET", "datasets/orphan", 404),
        ("GET", "acts/user~name/runs/last", 404),
        ("GET", "acts/user~name/runs/mine", 404),
        ("POST", "acts/user~name/run-sync", 404),
        ("POST", "datasets?name=taken", 404),
        ("GET", "webhooks", 404),
        ("GET", "datasets/rows/../others", 404),
        ("GET", "datasets/rows/%2E%2e/others", 404),
        ("GET", "key-value-stores/kept/records/..%5c", 404),
        ("GET", "datasets//others", 404),
        ("GET", "../v2/datasets/others", 404),
    ],
)
async def test_what_passes(method: str, path: str, status: int | None) -> None:
    platform, fence = Platform(), PlatformFence(OWNERS, "key:ann", api_base_url="https://api.apify.test")
    answer = await fence.answer(method, ROOT + path, platform.send)
    assert (answer.status_code if answer is not None else None) == status
    again = await fence.answer(method, ROOT + path, platform.send)
    assert (again.status_code if again is not None else None) == status
    assert len(platform.looks) - len(set(platform.looks)) <= 1  # names, what is missing, and what failed


async def test_nothing_passes_to_another_host() -> None:
    fence = PlatformFence(OWNERS, "key:ann", api_base_url="https://api.apify.test")
    for url in ("https://api.apify.test.evil/v2/users/me", "https://evil/v2/users/me", "https://api.apify.test/users"):
        answer = await fence.answer("GET", url, Platform().send)
        assert answer is not None
        assert answer.status_code == 404


async def test_lists_have_ones_own_and_a_start_is_remembered() -> None:
    platform, fence = Platform(), PlatformFence(OWNERS, "key:ann", api_base_url="https://api.apify.test")
    for path, ids in (("datasets?limit=9&offset=1", ["named"]), ("actor-runs?limit=1", ["mine"])):
        answer = await fence.answer("GET", ROOT + path, platform.send)
        assert answer is not None
        page = answer.json()["data"]
        assert [item["id"] for item in page["items"]] == ids
        assert page["total"] == len(ids) + page["offset"]
    started = {"id": "new", "defaultDatasetId": "new-rows"}
    response = impit.Response(201, content=json.dumps({"data": started}).encode())
    fence.started("POST", f"{ROOT}acts/user~name/runs?build=1", response)
    platform.looks.clear()
    for path in ("actor-runs/new", "datasets/new-rows/items"):
        assert await fence.answer("GET", ROOT + path, platform.send) is None
    assert platform.looks == []
