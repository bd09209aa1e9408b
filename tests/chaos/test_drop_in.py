"""A client written for Apify's own MCP server, with its address changed, while the worker is killed in its calls.

It is the official SDK's, in both protocol versions. Each call gets the answer that it would have got, what it starts is
paid once, and what it saves is saved once.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, TextContent
from playwright.async_api import expect

from outlast.workflows.tools.registry import MODES
from tests.integration.widgets.host import running_chromium, showing
from tests.support.eventually import eventually
from tests.support.http.api_client import api_client
from tests.support.http.mcp_wire import KNOWS_TASKS, LEGACY, MODERN, Wire
from tests.support.http.pages import INDEX, PAGE, WebServer
from tests.support.stacks.chaos_client import Chaos
from tests.support.x402_wallet import Wallet

QUERY = "tools=actors,runs,storage,tasks,schedules,outlast/sleeper"
SLEEPER = "outlast/sleeper"
FINAL = {"SUCCEEDED", "FAILED", "ABORTED", "TIMED-OUT"}
MOST_SECONDS = 45
"""The longest `waitSecs`."""
Structured = dict[str, Any]
EVERY = (
    "?mode=apify&ui=apps&tools=actors,docs,runs,storage,tasks,schedules,call-actor-widget,get-actor-run-widget,"
    "outlast/toolbox"
)
READS: dict[str, tuple[str, dict[str, Any], str]] = {
    "search-actors": ("search-actors", {"keywords": "sleeper"}, "^/v2/store$"),
    "its widget": ("search-actors-widget", {"keywords": "sleeper"}, "^/v2/store$"),
    "fetch-actor-details": ("fetch-actor-details", {"actor": SLEEPER}, "^/v2/acts/"),
    "its widget too": ("fetch-actor-details-widget", {"actor": SLEEPER}, "^/v2/acts/"),
    "get-actor-run": ("get-actor-run", {"runId": "$run", "waitSecs": 0}, "^/v2/actor-runs/$run$"),
    "the widget of a run": ("get-actor-run-widget", {"runId": "$run"}, "^/v2/actor-runs/$run$"),
    "get-actor-run-list": ("get-actor-run-list", {"limit": 2}, "^/v2/actor-runs/?$"),
    "get-actor-run-log": ("get-actor-run-log", {"runId": "$run"}, "^/v2/(logs/$run|actor-runs/$run/log)$"),
    "get-dataset": ("get-dataset", {"datasetId": "$dataset"}, "^/v2/datasets/$dataset$"),
    "get-dataset-items": ("get-dataset-items", {"datasetId": "$dataset"}, "^/v2/datasets/$dataset/items$"),
    "get-dataset-schema": ("get-dataset-schema", {"datasetId": "$dataset"}, "^/v2/datasets/$dataset/items$"),
    "get-dataset-list": ("get-dataset-list", {"unnamed": True}, "^/v2/datasets/?$"),
    "get-key-value-store": ("get-key-value-store", {"keyValueStoreId": "$store"}, "^/v2/key-value-stores/$store$"),
    "keys": ("get-key-value-store-keys", {"keyValueStoreId": "$store"}, "^/v2/key-value-stores/$store/keys$"),
    "a record": (
        "get-key-value-store-record",
        {"keyValueStoreId": "$store", "recordKey": "INPUT"},
        "^/v2/key-value-stores/$store/records/INPUT$",
    ),
    "get-key-value-store-list": ("get-key-value-store-list", {"unnamed": True}, "^/v2/key-value-stores/?$"),
    "get-actor-task": ("get-actor-task", {"taskId": "$task"}, "^/v2/actor-tasks/$task$"),
    "get-schedule": ("get-schedule", {"scheduleId": "$schedule"}, "^/v2/schedules/$schedule$"),
    "a tool of a server": ("outlast--toolbox--show", {}, "^/standby/"),
    "a tool by call-actor": ("call-actor", {"actor": "outlast/toolbox:show", "input": {}}, "^/standby/"),
}
"""What is called, and the platform's route that is held back. `$run`, `$dataset` ... are things of the sandbox."""
ON_DOCS: dict[str, tuple[dict[str, Any], str]] = {
    "search-apify-docs": ({"query": "actors run"}, INDEX),
    "fetch-apify-docs": ({"url": f"$docs{PAGE}"}, PAGE),
}
"""Tools that ask the documentation's site: what they are called with, and the page of it that is held back."""
CHANGES: dict[str, tuple[str, dict[str, Any], str, str, dict[str, Any]]] = {
    "update-actor-task": ("update-actor-task", {"title": "New"}, "PUT", "^/v2/actor-tasks/", {"title": "New"}),
    "publish-actor-task": ("publish-actor-task", {}, "PUT", "^/v2/actor-tasks/", {}),
    "unpublish-actor-task": ("unpublish-actor-task", {}, "PUT", "^/v2/actor-tasks/", {"publishedAt": None}),
    "update-schedule": ("update-schedule", {"isEnabled": False}, "PUT", "^/v2/schedules/", {"isEnabled": False}),
    "delete-schedule": ("delete-schedule", {}, "DELETE", "^/v2/schedules/", {"deleted": True}),
}
"""What is called on a saved thing of its own, the platform's method and route, and what the answer says of it."""
UNHELD = {
    "report-problem": "It asks no platform: it writes to the log.",
    "call-actor, outlast--sleeper, call-actor-widget": "The tests below kill in the start and while the run goes on.",
    "create-actor-task, create-schedule, abort-actor-run": "The test of starts and writes kills in them.",
}
"""Tools that are in neither table."""


class PeerClient:
    """Speaks with the server as its author has learned from Apify's, and knows nothing of ours."""

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self.name = name

    async def call(self, tool: str, **arguments: Any) -> Structured:
        """The structured answer of a call that is no error."""
        answer = await self._client.call_tool(tool, arguments)
        assert isinstance(answer, CallToolResult)
        assert not answer.is_error, [block.text for block in answer.content if isinstance(block, TextContent)]
        assert answer.structured_content is not None
        return answer.structured_content

    async def rows_of(self, started: Awaitable[Structured]) -> tuple[str, list[int]]:
        """The run's status and the numbers of its rows; a run that outlasts the call is followed, as nextStep says."""
        run = await started
        while run["status"] not in FINAL:
            assert f"runId={run['runId']}" in run["nextStep"], run
            run = await self.call("get-actor-run", runId=run["runId"], waitSecs=MOST_SECONDS)
        dataset = run["storages"]["datasets"]["default"]["id"]
        page = await self.call("get-dataset-items", datasetId=dataset)
        return run["status"], [row["index"] for row in page["items"]]


@asynccontextmanager
async def clients_of(chaos: Chaos) -> AsyncIterator[list[PeerClient]]:
    """One client for each protocol version, with the account's token; the newer one has widgets, too."""
    headers = {"Authorization": f"Bearer {chaos.sandbox.token}"}
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(httpx2.AsyncClient(headers=headers, trust_env=False, timeout=300))
        opened: list[PeerClient] = []
        for name, revision, ui in (("older", "legacy", "default"), ("newer", MODERN, "apps")):
            address = f"{chaos.stack.api_url}/mcp?mode=apify&{QUERY}&ui={ui}"
            streams = streamable_http_client(address, http_client=http)
            client = await stack.enter_async_context(Client(streams, mode=revision))
            await client.list_tools()
            opened.append(PeerClient(client, name))
        yield opened


def sleeper(seconds: float) -> dict[str, Any]:
    return {"seconds": seconds, "steps": 10, "rows": 3}


async def test_calls_of_actors_outlive_the_worker(chaos: Chaos) -> None:
    async with clients_of(chaos) as clients:
        await expect_rows_of_each_call(chaos, clients)
    chaos.expect_one_run_per_task(tasks=6)


async def expect_rows_of_each_call(chaos: Chaos, clients: list[PeerClient]) -> None:
    followed = [await one.call("call-actor", actor=SLEEPER, input=sleeper(8), waitSecs=0) for one in clients]
    waited: list[Awaitable[Any]] = []
    for client, run in zip(clients, followed, strict=True):
        waited += [
            client.rows_of(client.call("call-actor", actor=SLEEPER, input=sleeper(4), waitSecs=MOST_SECONDS)),
            client.rows_of(client.call("outlast--sleeper", **sleeper(4), waitSecs=MOST_SECONDS)),
            client.rows_of(client.call("get-actor-run", runId=run["runId"], waitSecs=MOST_SECONDS)),
        ]
    answers = asyncio.gather(*waited)
    await chaos.until(lambda: chaos.books.starts == 6)
    await chaos.stack.worker.restart()
    assert await answers == [("SUCCEEDED", [0, 1, 2])] * 6


async def test_starts_and_writes_whose_answers_come_too_late_are_made_once(chaos: Chaos) -> None:
    """The platform has done it, and the worker that is told of it is dead."""
    async with clients_of(chaos) as clients:
        await expect_each_once(chaos, clients)
    chaos.expect_one_run_per_task(tasks=4)


async def expect_each_once(chaos: Chaos, clients: list[PeerClient]) -> None:
    endless = [await one.call("call-actor", actor=SLEEPER, input=sleeper(600), waitSecs=0) for one in clients]
    before = chaos.sandbox.saved_objects()
    for path in (r"/runs$", r"/actor-tasks$", r"/schedules$", r"/abort$"):
        chaos.sandbox.order_fault("delay_after", method="POST", path=path, seconds=2.5, times=2)
    waited: list[Awaitable[Any]] = []
    for client, run in zip(clients, endless, strict=True):
        actions = [{"actorId": SLEEPER}]
        waited += [
            client.rows_of(client.call("call-actor", actor=SLEEPER, input=sleeper(0.1), waitSecs=MOST_SECONDS)),
            client.call("create-actor-task", actorId=SLEEPER, name=f"saved-by-{client.name}"),
            client.call("create-schedule", cronExpression="@yearly", actions=actions, name=f"made-by-{client.name}"),
            client.call("abort-actor-run", runId=run["runId"]),
        ]
    answers = asyncio.gather(*waited)
    await chaos.until(lambda: answers.done() or chaos.faults_left() == 0)
    assert not answers.done(), [(fault["match"]["path"], fault["hits"]) for fault in chaos.sandbox.faults]
    await chaos.stack.worker.restart()
    told = await answers
    assert told[0::4] == [("SUCCEEDED", [0, 1, 2])] * 2
    assert [saved["name"] for saved in told[1::4]] == [f"saved-by-{one.name}" for one in clients]
    assert [made["name"] for made in told[2::4]] == [f"made-by-{one.name}" for one in clients]
    assert [aborted["status"] for aborted in told[3::4]] == ["ABORTED"] * 2
    for saved, made in zip(told[1::4], told[2::4], strict=True):
        await clients[0].call("delete-schedule", scheduleId=made["scheduleId"])
        assert (await clients[1].call("get-actor-task", taskId=saved["taskId"]))["actorId"] == saved["actorId"]
    assert chaos.sandbox.saved_objects() == before + 2


def filled(value: Any, places: dict[str, str]) -> Any:
    """The value with the ids of the things that it speaks of."""
    text = json.dumps(value)
    for name, found in places.items():
        text = text.replace(name, found)
    return json.loads(text)


def lasting(answer: Any) -> Any:
    """An answer without times that reading changes, and without the ids of calls."""
    if isinstance(answer, list):
        return [lasting(entry) for entry in answer]
    if isinstance(answer, dict):
        return {name: lasting(entry) for name, entry in answer.items() if name not in ("accessedAt", "_meta")}
    return answer


async def structured(wire: Wire, tool: str, **arguments: Any) -> Structured:
    answer = await wire.request("tools/call", {"name": tool, "arguments": arguments})
    assert not answer["isError"], answer
    return answer["structuredContent"]


async def things_to_read(chaos: Chaos, wire: Wire) -> dict[str, str]:
    """A run that has ended, its storages, a saved task and a schedule."""
    run = await structured(wire, "call-actor", actor=SLEEPER, input=sleeper(0), waitSecs=MOST_SECONDS)
    actions = [{"actorId": SLEEPER}]
    schedule = await structured(wire, "create-schedule", cronExpression="@yearly", actions=actions)
    return {
        "$run": run["runId"],
        "$dataset": run["storages"]["datasets"]["default"]["id"],
        "$store": run["storages"]["keyValueStores"]["default"]["id"],
        "$task": chaos.sandbox.save_task(SLEEPER),
        "$schedule": schedule["scheduleId"],
    }


async def read_docs(wire: Wire, site: WebServer) -> list[Any]:
    """The answers of the tools that ask the documentation's site."""
    calls = filled([(tool, given) for tool, (given, _) in ON_DOCS.items()], {"$docs": site.url})
    params = [{"name": tool, "arguments": arguments} for tool, arguments in calls]
    return lasting(await asyncio.gather(*(wire.request("tools/call", each) for each in params)))


async def test_each_reading_call_is_answered_when_the_worker_dies_in_it(chaos: Chaos, docs_site: WebServer) -> None:
    """All of them at once: the platform, and the documentation, say nothing until the worker is dead."""
    async with api_client(chaos.stack.api_url, chaos.sandbox.token) as http:
        wire = Wire(http, MODERN, EVERY)
        calls = filled(READS, await things_to_read(chaos, wire))

        async def answers() -> dict[str, Any]:
            params = [{"name": tool, "arguments": arguments} for tool, arguments, _ in calls.values()]
            found = await asyncio.gather(*(wire.request("tools/call", each) for each in params))
            return dict(zip(calls, lasting(found), strict=True))

        expected = await answers()
        routes = Counter(route for _, _, route in calls.values())
        for route in routes:
            chaos.sandbox.order_fault("hang", path=route)
        docs_site.asked.clear()
        docs_site.hold()
        asked = asyncio.gather(answers(), read_docs(wire, docs_site))

        def are_all_held() -> bool:
            held = {fault["match"]["path"]: fault["hits"] for fault in chaos.sandbox.faults}
            pages = {page for _, page in ON_DOCS.values()} <= set(docs_site.asked)
            return asked.done() or (pages and all(held[route] >= calls for route, calls in routes.items()))

        await chaos.until(are_all_held)
        assert not asked.done(), "the worker was to die before the platform answers"
        chaos.stack.worker.kill()
        chaos.sandbox.clear_faults()
        docs_site.release()
        await chaos.stack.worker.ready()
        answered, of_docs = await asked
        assert answered == expected
        assert not any(answer["isError"] for answer in of_docs), of_docs
        assert of_docs == await read_docs(wire, docs_site)


async def things_to_change(chaos: Chaos, wire: Wire) -> dict[str, dict[str, Any]]:
    """A saved thing of its own for each call that changes one."""
    found: dict[str, dict[str, Any]] = {}
    for number, label in enumerate(CHANGES):
        if "task" in label:
            task = chaos.sandbox.save_task(SLEEPER, name=f"changed-{number}")
            found[label] = {"taskId": task}
            if "publish" in label:
                await structured(wire, "update-actor-task", taskId=task, publicConfig={"seoTitle": "Rows"})
            if label.startswith("unpublish"):
                await structured(wire, "publish-actor-task", taskId=task)
        else:
            made = await structured(wire, "create-schedule", cronExpression="@yearly", actions=[{"actorId": SLEEPER}])
            found[label] = {"scheduleId": made["scheduleId"]}
    return found


async def test_each_change_is_answered_when_the_worker_dies_in_it(chaos: Chaos) -> None:
    """The platform has made it, and the worker that is told of it is dead. So has it begun the two runs."""
    wallet = Wallet()
    async with api_client(chaos.stack.api_url, chaos.sandbox.token) as http:
        wire = Wire(http, MODERN, EVERY)
        paying = Wire(http, MODERN, "?mode=apify&tools=call-actor&payment=x402")
        things = await things_to_change(chaos, wire)
        methods = Counter((method, route) for _, _, method, route, _ in CHANGES.values())
        for (method, route), times in {**methods, ("POST", "/runs$"): 2}.items():
            chaos.sandbox.order_fault("delay_after", method=method, path=route, seconds=2.5, times=times)
        call = {"name": "call-actor", "arguments": {"actor": SLEEPER, "input": sleeper(0.1), "waitSecs": MOST_SECONDS}}
        paid = {**call, "_meta": {"x402/payment": wallet.payment()}}
        asked = asyncio.gather(
            paying.request("tools/call", paid),
            wire.request("tools/call", call, capabilities=KNOWS_TASKS),
            *(structured(wire, tool, **given, **things[label]) for label, (tool, given, *_) in CHANGES.items()),
        )
        await chaos.until(lambda: asked.done() or chaos.faults_left() == 0)
        assert not asked.done(), [(fault["match"]["path"], fault["hits"]) for fault in chaos.sandbox.faults]
        await chaos.stack.worker.restart()
        answered, task, *changed = await asked

        async def ended() -> dict[str, Any]:
            found = await wire.request("tasks/get", {"taskId": task["taskId"]}, capabilities=KNOWS_TASKS)
            assert found["status"] == "completed", found
            return found["result"]

        for answer in (answered, await eventually(ended, 240)):
            assert answer["structuredContent"]["status"] == "SUCCEEDED"
        for (label, (*_, expected)), told in zip(CHANGES.items(), changed, strict=True):
            assert told.items() >= expected.items(), label
            for name in things[label]:
                assert told[name] == things[label][name], label
        assert changed[list(CHANGES).index("publish-actor-task")]["publishedAt"]
        assert chaos.sandbox.paid_runs(wallet.payer) == {answered["structuredContent"]["runId"]}
    chaos.expect_one_run_per_task(tasks=2)


def test_every_tool_of_the_mode_is_killed_in() -> None:
    killed = {tool for tool, *_ in (*READS.values(), *CHANGES.values())} | ON_DOCS.keys()
    killed |= {name for names in UNHELD for name in names.split(", ")}
    assert {definition.name for definition in MODES["apify"].tools} <= killed


async def test_a_shown_run_is_followed_to_its_end_while_worker_and_api_are_killed(chaos: Chaos) -> None:
    """The first worker dies in the start of the run, whose answer comes too late; the others while the page looks."""
    async with api_client(chaos.stack.api_url, chaos.sandbox.token) as http:
        wire = Wire(http, MODERN, "?mode=apify&ui=apps&tools=call-actor-widget")

        async def call(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
            return await wire.request("tools/call", {"name": tool, "arguments": arguments})

        page = await wire.request("resources/read", {"uri": "ui://widget/actor-run.html"})
        chaos.sandbox.order_fault("delay_after", method="POST", path=r"/runs$", seconds=2.5, times=1)
        started = asyncio.ensure_future(call("call-actor-widget", {"actor": SLEEPER, "input": sleeper(30)}))
        await chaos.until(lambda: started.done() or chaos.faults_left() == 0)
        assert not started.done(), "the worker was to die before the platform answers"
        await chaos.stack.worker.restart()
        shown = await started
        assert not shown["isError"], shown
        html = page["contents"][0]["text"]
        async with running_chromium() as browser, showing(browser, html, surface=call) as host:
            await host.give_answer(shown)
            await expect(host.frame.locator("#message")).to_contain_text("of 30 s")
            await chaos.stack.worker.restart()
            looks = len(host.calls)
            await chaos.until(lambda: len(host.calls) > looks)
            await chaos.stack.api.restart()
            await expect(host.frame.get_by_role("status")).to_have_text("Succeeded", timeout=180_000)
            await expect(host.frame.locator("#rows")).to_have_text("3")
            await expect(host.frame.get_by_role("alert")).to_be_hidden()
            assert host.requests == []
    chaos.expect_one_run_per_task()


async def test_tasks_of_the_older_version_outlive_the_worker_and_the_api(chaos: Chaos) -> None:
    """One ends, and its result is collected; of one that is cancelled the run is stopped, as soon as that can be."""
    async with api_client(chaos.stack.api_url, chaos.sandbox.token) as http:
        wire = Wire(http, LEGACY, f"?mode=apify&{QUERY}")
        await wire.initialize()
        arguments = {"actor": SLEEPER, "input": sleeper(4)}
        started = await wire.request("tools/call", {"name": "call-actor", "arguments": arguments, "task": {}})
        task_id = started["task"]["taskId"]
        long = {"actor": SLEEPER, "input": sleeper(600)}
        unwanted = (await wire.request("tools/call", {"name": "call-actor", "arguments": long, "task": {}}))["task"]
        await chaos.until(lambda: chaos.books.starts == 2)
        chaos.sandbox.order_fault("status", method="POST", path="/abort$", status=503)
        cancelled = await wire.request("tasks/cancel", {"taskId": unwanted["taskId"]})
        await chaos.until(lambda: chaos.sandbox.faults[0]["hits"] > 0)
        chaos.stack.worker.kill()
        await chaos.stack.api.restart()
        chaos.sandbox.clear_faults()
        await chaos.stack.worker.ready()
        wire.session = None
        await wire.initialize()

        async def ended() -> dict[str, Any]:
            task = await wire.request("tasks/get", {"taskId": task_id})
            assert task["status"] == "completed", task
            return task

        assert (await eventually(ended, 240))["statusMessage"].startswith("outlast/sleeper: SUCCEEDED")
        result = await wire.request("tasks/result", {"taskId": task_id})
        again = await wire.request("tasks/get", {"taskId": unwanted["taskId"]})
        await chaos.until(lambda: chaos.books.ended_as("ABORTED") == 1)
    assert [cancelled["status"], again["status"]] == ["cancelled", "cancelled"]
    assert result["structuredContent"]["status"] == "SUCCEEDED"
    assert result["structuredContent"]["storages"]["datasets"]["default"]["itemCount"] == 3
    chaos.expect_one_run_per_task(tasks=2)
