"""A real Prometheus scrapes worker and API with the configuration that ships, and finds the series documented."""

import re
from pathlib import Path

import httpx
import pytest
import yaml

from tests.support.calls.tasks import completed, result_of, sleeper_call, started
from tests.support.eventually import eventually
from tests.support.paths import ROOT
from tests.support.stacks.prometheus import SHIPPED, Prometheus, promtool
from tests.support.stacks.sandbox import Sandbox
from tests.support.stacks.service import Service

DOCUMENT = ROOT / "docs" / "metrics.md"
CASES = sorted(SHIPPED.glob("alerts*.test.yml"))

pytestmark = pytest.mark.needs("prometheus")


def test_the_configuration_and_the_rules_are_valid() -> None:
    promtool("check", "config", "prometheus.yml")
    promtool("check", "rules", "alerts.yml")


@pytest.mark.parametrize(
    "cases",
    [pytest.param(path, id=path.name, marks=[pytest.mark.thorough] if "hours" in path.name else []) for path in CASES],
)
def test_the_alerts_fire_when_they_should_and_only_then(cases: Path) -> None:
    promtool("test", "rules", cases.name)


def test_every_alert_is_tested() -> None:
    alerts = set(re.findall(r"- alert: (\w+)", (SHIPPED / "alerts.yml").read_text()))
    tested = {name for cases in CASES for name in re.findall(r"alertname: (\w+)", cases.read_text())}
    assert alerts == tested


def test_every_alert_names_a_page_that_tells_of_it() -> None:
    groups = yaml.safe_load((SHIPPED / "alerts.yml").read_text())["groups"]
    alerts = [rule for group in groups for rule in group["rules"] if "alert" in rule]
    assert len(alerts) > 20
    for alert in alerts:
        page = (ROOT / alert["annotations"]["runbook"]).read_text()
        assert re.sub("Slow$", "Fast", alert["alert"]) in page


async def test_every_target_is_scraped_and_every_rule_loaded(prometheus: Prometheus) -> None:
    def up() -> bool:
        targets = prometheus.get("targets")["activeTargets"]
        assert {target["labels"]["job"] for target in targets} == {"outlast-api", "outlast-worker", "temporal"}
        assert all(target["health"] == "up" for target in targets), targets
        return True

    await eventually(up)

    def evaluated() -> bool:
        rules = [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]
        return bool(rules) and all(rule["health"] == "ok" for rule in rules)

    assert await eventually(evaluated)
    assert [alert for alert in prometheus.get("alerts")["alerts"] if alert["state"] == "firing"] == []


async def test_what_calls_do_is_counted(prometheus: Prometheus, api: httpx.AsyncClient, sandbox: Sandbox) -> None:
    await completed(api, sleeper_call(0.1))
    await completed(api, sleeper_call(0, failWith={"exitCode": 1}))
    await completed(api, sleeper_call(0, mode="openai"))
    await completed(api, {"tool": "outlast--sleeper", "arguments": {"seconds": 0}})
    sandbox.order_fault("drop_after", method="POST", path="/runs$", times=1)
    await completed(api, sleeper_call(0))
    task_id = await started(api, sleeper_call(60))

    async def running() -> bool:
        return (await api.get(f"/v1/tasks/{task_id}")).json()["run"] is not None

    await eventually(running)
    call = 'outlast_tool_calls_total{tool="call-actor",executor="%s",outcome="%s"}'
    expected = {
        call % ("sync", "completed"): 2,
        call % ("sync", "failed"): 1,
        call % ("async", "completed"): 1,
        'outlast_tool_calls_total{tool="actor-tool",executor="sync",outcome="completed"}': 1,
        'outlast_tool_call_duration_seconds_count{tool="call-actor",executor="sync",outcome="completed"}': 2,
        'outlast_tool_call_duration_seconds_sum{tool="call-actor",executor="sync",outcome="completed"}': 0.1,
        'outlast_actor_runs_total{event="started"}': 5,
        'temporal_local_activity_succeed_endtoend_latency_seconds_count{activity_type="start_run"}': 5,
        'temporal_activity_succeed_endtoend_latency_seconds_bucket{activity_type="start_run",le=~"60|60.0"}': 1,
        'outlast_tool_call_duration_seconds_bucket{le=~"1|1.0"}': 1,
        'outlast_actor_runs_total{event="adopted"}': 1,
        'outlast_result_bytes_total{tool="call-actor"}': 100,
        "outlast_open_tasks": 1,
        'outlast_http_requests_total{method="POST",route="/v1/tasks",status="200"}': 5,
        'outlast_http_request_duration_seconds_count{method="POST",route="/v1/tasks"}': 6,
        'sum(temporal_num_pollers{task_queue="outlast-tools"})': 1,
    }
    for query, least in expected.items():
        await prometheus.reaches(query, least)
    await api.post(f"/v1/tasks/{task_id}/cancel")
    await result_of(api, task_id)
    cancelled = {call % ("sync", "cancelled"): 1, 'outlast_actor_runs_total{event="abort_requested"}': 1}
    for query, least in cancelled.items():
        await prometheus.reaches(query, least)


async def own_metrics(service: Service) -> dict[str, str]:
    """Our own series as worker and API export them, without the SDK's and the Python process's."""
    async with httpx.AsyncClient(trust_env=False, timeout=180) as http:
        texts = [(await http.get(url)).text for url in (service.worker_metrics_url, f"{service.api_url}/metrics")]
    names = ("worker", "api")
    return {
        name: "\n".join(line for line in text.splitlines() if re.match(r"(# (HELP|TYPE) )?outlast_", line)) + "\n"
        for name, text in zip(names, texts, strict=True)
    }


async def test_our_metrics_follow_prometheus_conventions(service: Service, api: httpx.AsyncClient) -> None:
    await completed(api, sleeper_call(0))
    for text in (await own_metrics(service)).values():
        assert text.count("# HELP") >= 3
        promtool("check", "metrics", given=text)


async def test_no_label_has_as_many_values_as_there_are_tasks(service: Service, api: httpx.AsyncClient) -> None:
    answers = [await completed(api, sleeper_call(0) | {"session_id": f"label-{number}"}) for number in range(3)]
    text = "".join((await own_metrics(service)).values())
    for answer in answers:
        task = answer["task"]
        for unbounded in (task["id"], task["session_id"], task["run"]["run_id"], task["run"]["dataset_id"]):
            assert unbounded not in text


async def test_the_document_names_exactly_what_is_exported(service: Service, api: httpx.AsyncClient) -> None:
    await completed(api, sleeper_call(0))
    exported = set(re.findall(r"# TYPE (outlast_\w+)", "".join((await own_metrics(service)).values())))
    documented = set(re.findall(r"^\| `(outlast_\w+)`", DOCUMENT.read_text(), re.MULTILINE))
    exported = {name for name in exported if not name.endswith("_created")}
    assert exported <= documented
