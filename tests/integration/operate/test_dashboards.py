"""The dashboards: as the code describes them, with data in each panel, every link to something that is there."""

import json
import re
from collections.abc import Awaitable, Callable
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from temporalio.client import Client

from outlast.deploy.grafana.board import Board, Panel
from outlast.deploy.grafana.boards import BOARDS
from outlast.deploy.grafana.rendering import as_json
from outlast.worker.sweep_schedule import SWEEP_SCHEDULE_ID
from tests.support.calls.bulk import Bulk, working_in_bulk
from tests.support.calls.tasks import completed, result_of, sleeper_call, started
from tests.support.calls.turns import new_session, sent
from tests.support.eventually import eventually
from tests.support.paths import ROOT
from tests.support.stacks.prometheus import Prometheus
from tests.support.stacks.sandbox import Sandbox

FOLDER = ROOT / "deploy" / "grafana" / "dashboards"
PANELS = [(board, panel) for board in BOARDS for panel in board.panels]
CHOSEN = {"$namespace": "default", "$tool": ".*", "$queue": ".*", "$provider": ".*", "$__rate_interval": "10m"}
SERIES = re.compile(r"\b((?:outlast|temporal|approximate|poll|service|persistence|memory|process|action)\w*)[\[{]")
NOT_UNDER_THIS_LOAD = {
    "outlast_spend_refusals_total": "no caller has a cap here",
    "outlast_stuck_workflows_ended_total": "nothing is stuck",
    "outlast_policy_loads_total": "there is no policy file",
    "temporal_workflow_task_execution_failed_total": "the workflows have no defect",
    "temporal_sticky_cache_miss_total": "the worker has room for all workflows",
    "outlast_limited_total": "nobody is near a limit",
    "outlast_queued_tasks": "nobody has more tasks than its share",
}


def test_the_committed_files_are_what_the_boards_say() -> None:
    assert {path.name: path.read_text() for path in FOLDER.glob("*.json")} == {
        f"{board.uid}.json": as_json(board) for board in BOARDS
    }


@pytest.mark.parametrize(("board", "panel"), PANELS, ids=lambda one: getattr(one, "title", None))
def test_every_panel_says_what_it_shows_and_leads_somewhere(board: Board, panel: Panel) -> None:
    assert len(panel.description) > 10
    assert panel.links
    for link in panel.links:
        address = urlsplit(link.url.replace("${docs}", "http://docs").replace("${temporal_ui}", "http://ui"))
        if address.netloc == "docs":
            assert (ROOT / "docs" / f"{address.path.strip('/')}.md").is_file(), link.url
        else:
            assert address.path.endswith("/workflows")
            assert parse_qs(address.query)["query"]


@pytest.mark.thorough
@pytest.mark.needs("prometheus")
async def test_every_query_has_data_under_mixed_load(
    prometheus: Prometheus, temporal: Client, api: httpx.AsyncClient, sandbox: Sandbox
) -> None:
    async with working_in_bulk(api) as bulk:
        await mixed_load(api, sandbox, bulk)
        await temporal.get_schedule_handle(SWEEP_SCHEDULE_ID).trigger()
        await everything_has_data(prometheus, lambda: mixed_load(api, sandbox, bulk))


async def everything_has_data(prometheus: Prometheus, again: Callable[[], Awaitable[None]]) -> None:
    """Every series has, and every query when the load came `again`."""

    def every_series_is_there() -> bool:
        known = set(prometheus.get("label/__name__/values"))
        wanted = {name for _, panel in PANELS for query in panel.queries for name in SERIES.findall(query.expr)}
        assert wanted - known - NOT_UNDER_THIS_LOAD.keys() == set()
        return True

    await eventually(every_series_is_there)
    await again()  # a series begins with its first event: only a second one is an increase

    def every_query_answers() -> bool:
        assert [
            f"{board.title}: {panel.title}: {query.expr}"
            for board, panel in PANELS
            for query in panel.queries
            if not numbers(prometheus, query.expr) and not only_quiet(query.expr)
        ] == []
        return True

    await eventually(every_query_answers)
    for series in ('outlast_batch_items_total{reused="true"}', 'outlast_reused_calls_total{outcome="answered"}'):
        assert numbers(prometheus, f"sum({series}) > 0"), series


def numbers(prometheus: Prometheus, expression: str) -> list[float]:
    """What a panel's query gives now, without NaN."""
    for name, value in {**CHOSEN, "$__range": "10m"}.items():
        expression = expression.replace(name, value)
    return [value for value in prometheus.query(expression) if value == value]  # noqa: PLR0124  # NaN is not itself


def only_quiet(expression: str) -> bool:
    """Whether a query reads a series that this load does not move."""
    return not NOT_UNDER_THIS_LOAD.keys().isdisjoint(SERIES.findall(expression))


@pytest.mark.needs("prometheus")
async def test_the_choices_at_the_top_have_values(prometheus: Prometheus, api: httpx.AsyncClient) -> None:
    await completed(api, sleeper_call(0))
    await sent(api, await new_session(api), "Hello")
    boards = [json.loads(path.read_text()) for path in FOLDER.glob("*.json")]
    queries = {
        one["query"].replace("$namespace", "default")
        for board in boards
        for one in board["templating"]["list"]
        if one["type"] == "query"
    }
    assert len(queries) == 4

    def without_values() -> set[str]:
        found = {query: re.fullmatch(r"label_values\((.+), (\w+)\)", query) for query in queries}
        return {
            query
            for query, parts in found.items()
            if parts is None or not prometheus.get(f"label/{parts[2]}/values", **{"match[]": parts[1]})
        }

    await eventually(lambda: not without_values())


async def test_the_queries_of_the_temporal_ui_are_valid(temporal: Client) -> None:
    links = {link.url for _, panel in PANELS for link in panel.links if "temporal_ui" in link.url}
    assert len(links) >= 6
    for url in links:
        query = parse_qs(urlsplit(url.replace("${temporal_ui}", "http://ui")).query)["query"][0]
        assert (await temporal.count_workflows(query)).count >= 0


async def mixed_load(api: httpx.AsyncClient, sandbox: Sandbox, bulk: Bulk) -> None:
    """Work in bulk, quick tools, runs that succeed, fail, are adopted, cancelled; a stored output, a turn."""
    await bulk.work()
    await completed(api, {"tool": "notes__count", "arguments": {}})
    await api.get("/v1/servers/notes", params={"max_age_seconds": 0})
    await completed(api, sleeper_call(0.1, rows=500))
    await completed(api, sleeper_call(0, failWith={"exitCode": 1}))
    run = (await completed(api, sleeper_call(0, mode="openai")))["task"]["run"]
    await completed(api, {"tool": "get-actor-run", "arguments": {"runId": run["run_id"]}})
    await completed(api, {"tool": "search-apify-docs", "arguments": {"query": "crawl"}})
    sandbox.order_fault("drop_after", method="POST", path="/runs$", times=1)
    await completed(api, sleeper_call(0))
    task_id = await started(api, sleeper_call(60))

    async def running() -> bool:
        return (await api.get(f"/v1/tasks/{task_id}")).json()["run"] is not None

    await eventually(running)
    await api.post(f"/v1/tasks/{task_id}/cancel")
    await result_of(api, task_id)
    await sent(api, await new_session(api), "Hello")
    assert (await api.get("/v1/tasks/nobody")).status_code == 404
