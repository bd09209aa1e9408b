"""What callers subscribe: each its own, within limits, under the rules on addresses; also while no worker is alive."""

import asyncio

import httpx
import pytest
from temporalio.client import Client

from outlast.activities.webhooks.contracts import subscriptions_id
from tests.support.calls.histories import payloads_of
from tests.support.calls.tasks import sleeper_call
from tests.support.calls.webhooks import subscribed

URL = "http://127.0.0.1:8080/hooks/with-a-secret-in-it"


async def test_a_webhook_is_made_shown_changed_and_removed(api: httpx.AsyncClient) -> None:
    made = await subscribed(api, URL, "task.completed", name="ours")
    assert made["secret"].startswith("whsec_")
    path = f"/v1/webhooks/{made['id']}"
    shown = (await api.get(path)).json()
    assert "secret" not in shown or shown["secret"] is None
    assert (shown["url"], shown["name"], shown["events"], shown["enabled"]) == (URL, "ours", ["task.completed"], True)

    changes = {"url": URL + "/new", "events": [], "enabled": False}
    changed = await api.patch(path, json=changes)
    assert changed.status_code == 200, changed.text
    assert changed.json()["url"] == URL + "/new"
    assert "batch.progress" in changed.json()["events"]
    assert not changed.json()["enabled"]
    assert [one["id"] for one in (await api.get("/v1/webhooks")).json()["webhooks"]] == [made["id"]]

    assert (await api.delete(path)).status_code == 204
    assert (await api.get(path)).status_code == 404
    assert (await api.delete(path)).status_code == 404


async def test_a_request_that_is_sent_twice_makes_one_webhook(api: httpx.AsyncClient) -> None:
    headers = {"Idempotency-Key": "the-same"}
    made = [(await api.post("/v1/webhooks", json={"url": URL}, headers=headers)).json() for _ in range(2)]
    assert made[0] == made[1]


async def test_other_callers_see_and_change_nothing(api: httpx.AsyncClient, other: httpx.AsyncClient) -> None:
    made = await subscribed(api, URL)
    path = f"/v1/webhooks/{made['id']}"
    assert (await other.get("/v1/webhooks")).json() == {"webhooks": []}
    answers = [
        await other.get(path),
        await other.patch(path, json={"enabled": False}),
        await other.delete(path),
        await other.post(f"{path}/rotate", json={}),
        await other.post(f"{path}/test"),
    ]
    assert [answer.status_code for answer in answers] == [404] * 5
    assert (await api.get(path)).json()["enabled"]


async def test_what_is_subscribed_stays_the_same_when_its_workflow_continues_as_new(
    api: httpx.AsyncClient, temporal: Client
) -> None:
    first_run = (await temporal.get_workflow_handle(subscriptions_id("key:ann")).describe()).run_id
    for _ in range(8):
        made = [(await subscribed(api, URL))["id"] for _ in range(2)]
        assert [one["id"] for one in (await api.get("/v1/webhooks")).json()["webhooks"]] == made
        for webhook_id in made:
            assert (await api.delete(f"/v1/webhooks/{webhook_id}")).status_code == 204
        assert (await api.get("/v1/webhooks")).json() == {"webhooks": []}
    assert (await temporal.get_workflow_handle(subscriptions_id("key:ann")).describe()).run_id != first_run


async def test_no_history_holds_an_address_or_a_secret(api: httpx.AsyncClient, temporal: Client) -> None:
    made = await subscribed(api, URL)
    rotated = (await api.post(f"/v1/webhooks/{made['id']}/rotate", json={})).json()
    history = await payloads_of(temporal, subscriptions_id("key:ann"))
    assert made["id"] in history
    for secret in ("with-a-secret-in-it", made["secret"], rotated["secret"], made["secret"].removeprefix("whsec_")):
        assert secret not in history


async def test_a_caller_has_as_many_as_it_may_however_many_it_asks_for_at_once(api: httpx.AsyncClient) -> None:
    answers = await asyncio.gather(*(api.post("/v1/webhooks", json={"url": URL}) for _ in range(10)))
    assert sorted(answer.status_code for answer in answers) == [201] * 6 + [409] * 4
    refused = next(answer for answer in answers if answer.status_code == 409)
    assert "6 webhooks" in refused.json()["detail"]


@pytest.mark.parametrize(
    "body",
    [
        {"url": "http://169.254.169.254/latest"},
        {"url": "http://user:pass@example.com/"},
        {"url": "ftp://example.com/"},
        {"url": "not an address"},
        {"url": ""},
        {"url": "http://example.com/" + "x" * 3000},
        {"url": URL, "events": ["task.exploded"]},
        {"url": URL, "secret": "whsec_short"},
        {"url": URL, "secret": "no-prefix-no-prefix-no-prefix-no-prefix"},
        {"url": URL, "evnts": []},
        {},
    ],
)
async def test_what_is_no_webhook_is_refused_with_a_reason(api: httpx.AsyncClient, body: dict[str, object]) -> None:
    answer = await api.post("/v1/webhooks", json=body)
    assert answer.status_code == 422, answer.text
    assert "no-prefix-no-prefix" not in answer.text
    assert (await api.get("/v1/webhooks")).json() == {"webhooks": []}


@pytest.mark.parametrize(
    "options",
    [
        {"webhooks": [{"url": "http://169.254.169.254/", "secret": "whsec_" + "c2VjcmV0" * 4}]},
        {"webhooks": [{"url": URL, "secret": "whsec_c2hvcnQ="}]},
        {"webhooks": [{"url": URL}]},
        {"webhooks": [{"url": URL, "secret": "whsec_" + "c2VjcmV0" * 4}] * 5},
        {"webhooks": [{"url": URL, "secret": "whsec_" + "c2VjcmV0" * 4}], "reuse": {"max_age": "1h"}},
    ],
)
async def test_a_call_whose_webhooks_are_none_starts_nothing(api: httpx.AsyncClient, options: object) -> None:
    answer = await api.post("/v1/tasks", json=sleeper_call(0.1) | {"options": options})
    assert answer.status_code == 422, answer.text
    assert "c2VjcmV0" not in answer.text
