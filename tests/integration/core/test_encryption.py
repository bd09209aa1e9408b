"""With encryption on, nothing of a call can be read on the disk, and calls, events and outputs work as ever."""

import base64
import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from google.protobuf.json_format import MessageToDict
from playwright.async_api import Page, expect
from pydantic import SecretStr
from temporalio.api.common.v1 import Payload, Payloads
from temporalio.api.failure.v1 import Failure
from temporalio.client import Client

from outlast.activities.failures.exceptions import OutputDamaged, StoreUnavailable
from outlast.activities.stuck_tasks.assess import assess, failed_attempts
from outlast.activities.stuck_tasks.contracts import StuckLimits
from outlast.activities.stuck_tasks.histories import readable
from outlast.api.access.api_keys import new_key
from outlast.api.access.policy.contracts import KeyEntry, Scope
from outlast.api.access.policy.policy_file import add_key
from outlast.api.access.principal import ALL_BUT_ADMIN
from outlast.api.errors import TaskDataUnavailable
from outlast.api.temporal.errors import temporal_errors
from outlast.worker.connection import connect, output_objects
from outlast.worker.settings import Settings
from tests.integration.widgets.host import running_chromium
from tests.support.calls.tasks import Event, completed, result_of, started
from tests.support.calls.turns import named, new_session, streamed, turn_events
from tests.support.eventually import eventually
from tests.support.http.key_proxy import proxy_with_key
from tests.support.ports import free_port
from tests.support.processes.module_process import started_module
from tests.support.providers.script import Call, Refusal, by_position, says
from tests.support.providers.server import ProviderServer, provider_fixture
from tests.support.stacks.api_server import api_settings, serving_api
from tests.support.stacks.service import Service, running_outlast, settings_environment

provider = provider_fixture()

SECRET_WORD = "kumquatic"
WORD = "aubergine"
"""Stands in arguments, answers, stored rows and in the message of a failure."""


def ring(*names: str) -> str:
    return ",".join(f"{name}:{base64.b64encode(name.encode().ljust(32)).decode()}" for name in names)


@pytest.fixture(scope="module")
def settings(provider: ProviderServer) -> dict[str, str]:
    return {
        "OUTLAST_ENCRYPTION": "on",
        "OUTLAST_SEAL_KEYS": ring("first"),
        "OUTLAST_LOG_LEVEL": "warning",
        **provider.environment,
    }


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, settings: dict[str, str]) -> Iterator[Service]:
    tools = [
        "docs.examples.hello_tools",
        "tests.support.tools.large_payloads",
        "tests.support.tools.batch_tools",
    ]
    with running_outlast(
        tmp_path_factory.mktemp("encrypted"), tools=tools, database=True, ui=True, settings=settings
    ) as running:
        yield running


@pytest.fixture(scope="module")
def answers(service: Service) -> dict[str, Any]:
    """A call with its answer, one whose output is stored, one that fails, and one whose argument is in the store."""
    texts = {
        "said": ("hello_world", {"name": WORD}),
        "stored": ("call-actor", {"actor": "outlast/big-table", "input": {"rows": 300}}),
        "failed": ("get-actor-run", {"runId": WORD}),
        "large": ("call-actor", {"actor": "outlast/sleeper", "input": {"seconds": 0, "note": WORD * 40_000}}),
    }
    with httpx.Client(base_url=service.api_url, headers={"Prefer": "wait=100"}, timeout=120) as http:
        made: dict[str, Any] = {}
        for name, (tool, arguments) in texts.items():
            answer = http.post("/v1/tasks", json={"tool": tool, "arguments": arguments, "session_id": "s"})
            assert answer.status_code == 200, answer.text
            made[name] = answer.json()
        return made


def with_ring(service: Service, *names: str, encryption: str = "on") -> Settings:
    return Settings.model_validate(
        {"data_dir": service.folder, "seal_keys": SecretStr(ring(*names)), "encryption": encryption}
    )


@pytest.fixture
def client_with(service: Service, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TEMPORAL_ADDRESS", service.temporal_address)

    async def connected(*names: str) -> Client:
        return await connect(with_ring(service, *names))

    return connected


async def test_calls_are_answered_as_ever(service: Service, answers: dict[str, Any]) -> None:
    assert WORD in str(answers["said"]["result"]).lower()
    assert answers["failed"]["result"]["is_error"] is True
    locator = answers["stored"]["result"]["locator"]
    async with service.http() as api:
        part = await api.get(f"/v1/outputs/{locator}", params={"offset": 299})
        assert len(part.text.splitlines()) == 1
        whole = await api.get(f"/v1/outputs/{locator}")
        assert len(whole.text.splitlines()) == 300
        events = (await api.get(f"/v1/tasks/{answers['said']['task']['id']}/events")).text
    assert "task_completed" in events


async def test_a_turn_and_its_retried_step_are_told_as_ever(service: Service, provider: ProviderServer) -> None:
    greeting = says("Let me greet. ", Call("hello_world", {"name": WORD}))
    provider.script = by_position(Refusal(429, "rate_limit_error", "Slow down.", {"retry-after": "1"}))
    seen: list[Event] = []
    async with service.http() as api:
        session = await new_session(api)
        async for event in streamed(api, session, f"Greet an {WORD}."):
            seen.append(event)
            if event.name == "retry" and event.id is None:
                provider.script = by_position(greeting, says(f"{WORD}s are done."))
        turn = named(seen, "finish")[0]["turn_id"]
        again = [event async for event in turn_events(api, session, turn)]
    assert "".join(delta["text"] for delta in named(seen, "text-delta")) == f"Let me greet. {WORD}s are done."
    assert {retry["error_kind"] for retry in named(seen, "retry")} == {"rate_limit"}
    assert again == [event for event in seen if event.id is not None]


def test_nothing_of_a_call_stands_on_the_disk(service: Service, answers: dict[str, Any]) -> None:
    database = list(service.folder.glob("temporal.db*"))
    stored = [path for path in service.outputs.rglob("*") if path.is_file()]
    row = b'"price"'
    assert database
    assert stored
    for path in (*database, *stored):
        content = path.read_bytes()
        assert WORD.encode() not in content, path
        assert base64.b64encode(WORD.encode())[:8] not in content, path
        assert row not in content, path
        is_plain = path in database or "owner" in path.parts  # which has no content of a call
        assert is_plain or content.startswith(b"\x8eOL1"), path


async def test_no_words_of_a_caller_stand_in_any_file_nor_in_a_backup(
    service: Service, provider: ProviderServer, tmp_path: Path
) -> None:
    """Every text that a caller may write for people or for tools, also where Temporal has a field for plain text."""
    async with service.http() as api:
        await write_everywhere(api, provider)
        noted = (await api.get("/v1/schedules/noted")).json()
        assert noted["paused_because"] == f"{SECRET_WORD} pause"
        failing = (await api.get("/v1/schedules/fails")).json()
        assert SECRET_WORD in failing["paused_because"]
    snapshot = tmp_path / "snapshot.db"
    with closing(sqlite3.connect(service.folder / "temporal.db")) as database, closing(sqlite3.connect(snapshot)) as to:
        database.backup(to)  # what `outlast backup` does
    files = [path for path in (*service.folder.rglob("*"), snapshot) if path.is_file() and "sandbox" not in path.parts]
    found = [path for path in files if SECRET_WORD in read(path)]
    assert found == []


async def write_everywhere(api: httpx.AsyncClient, provider: ProviderServer) -> None:
    """Words in each field that takes any text."""
    word = SECRET_WORD
    never = {"cron": ["0 0 29 2 *"]}
    greeting = {"tool": "hello_world", "arguments": {"name": word}}

    async def made(method: str, path: str, body: Any = None, **headers: str) -> Any:
        answer = await api.request(method, path, json=body, headers=headers)
        assert answer.is_success, (path, answer.text)
        return answer.json() if answer.content else None

    await made("PUT", "/v1/saved-calls/saved", {**greeting, "note": f"{word} note"})
    await made("POST", "/v1/schedules", {"id": "noted", "call": greeting, "note": f"{word} note", **never})
    await made("POST", "/v1/schedules/noted/resume", {"reason": f"{word} resume"})
    await made("POST", "/v1/schedules/noted/pause", {"reason": f"{word} pause"})
    fails = {"tool": "double", "arguments": {"number": 1, "label": word, "fails_with": "payment"}}
    await made("POST", "/v1/schedules", {"id": "fails", "call": fails, "pause_on": ["payment"], **never})
    await made("POST", "/v1/schedules/fails/trigger")
    await eventually(lambda: paused(api, "fails"))
    await made(
        "POST", "/v1/webhooks", {"url": f"https://93.184.216.34/{word}", "name": word, "events": ["batch.progress"]}
    )
    marked = {"message_id": f"{word} message", "tool_call_id": f"{word} call", "session_id": "marked"}
    await made("POST", "/v1/tasks", {**greeting, **marked}, **{"Idempotency-Key": f"{word} key", "Prefer": "wait=60"})
    batch = {
        "tool": "hello_world",
        "name": f"{word} batch",
        "items": [{"key": f"{word} 1", "arguments": {"name": word}}],
    }
    batch_id = (await made("POST", "/v1/batches", batch))["id"]
    await eventually(lambda: batch_ended(api, batch_id))
    question = {"tool": "pick_colour", "arguments": {"colours": [word, "red"]}}
    task_id = await started(api, question)
    await eventually(lambda: asks(api, task_id))
    await made("POST", f"/v1/tasks/{task_id}/cancel")
    provider.script = by_position(says(f"{word} said.", Call("hello_world", {"name": word})), says("done"))
    session = await new_session(api, title=f"{word} title", instructions=f"{word} do")
    async for _ in streamed(api, session, f"What is {word}?"):
        pass
    await made("PATCH", f"/v1/sessions/{session}", {"title": f"{word} new title"})
    for path in (f"/v1/tools/{word}", f"/v1/tasks/{word}", f"/v1/saved-calls/{word}"):
        assert (await api.get(path)).status_code == 404


async def batch_ended(api: httpx.AsyncClient, batch_id: str) -> bool:
    return (await api.get(f"/v1/batches/{batch_id}")).json()["status"] == "completed"


async def asks(api: httpx.AsyncClient, task_id: str) -> bool:
    return (await api.get(f"/v1/tasks/{task_id}")).json()["status"] == "input_required"


async def paused(api: httpx.AsyncClient, schedule_id: str) -> bool:
    return (await api.get(f"/v1/schedules/{schedule_id}")).json()["paused"]


def read(path: Path) -> str:
    return path.read_bytes().decode(errors="replace")


async def test_a_rotated_key_still_reads_and_a_removed_one_is_named(
    service: Service, answers: dict[str, Any], client_with: Any
) -> None:
    task_id = answers["said"]["task"]["id"]
    rotated = await client_with("second", "first")
    assert WORD in str(await rotated.get_workflow_handle(task_id).result()).lower()
    removed = await client_with("second")
    with pytest.raises(TaskDataUnavailable, match="'first', which is not in the ring"), temporal_errors():
        await removed.get_workflow_handle(task_id).result()

    [path] = [path for path in service.outputs.rglob("*.json") if "manifests" in path.parts][:1]
    key = path.relative_to(service.outputs).as_posix()
    assert b"locator" in (await output_objects(with_ring(service, "second", "first")).get(key) or b"")
    assert b"locator" in (await output_objects(with_ring(service, "first", encryption="read")).get(key) or b"")
    with pytest.raises(StoreUnavailable, match="'first', which is not in the ring"):
        await output_objects(with_ring(service, "second")).get(key)


async def test_an_object_that_is_renamed_or_changed_does_not_open(tmp_path: Path) -> None:
    settings = Settings.model_validate(
        {"data_dir": tmp_path, "seal_keys": SecretStr(ring("first")), "encryption": "on"}
    )
    objects = output_objects(settings)
    content = bytes(range(256)) * 1_000
    await objects.put("parts/ann/one/0", content)
    assert await objects.size("parts/ann/one/0") == len(content)
    for start, end in ((0, 1), (65_535, 65_537), (65_536, 131_072), (200_000, len(content))):
        assert await objects.get_range("parts/ann/one/0", start, end) == content[start:end]
    stored = tmp_path / "outputs" / "parts" / "ann" / "one" / "0"
    sealed = stored.read_bytes()
    copied = tmp_path / "outputs" / "parts" / "bob"
    copied.mkdir()
    (copied / "0").write_bytes(sealed)
    with pytest.raises(OutputDamaged):
        await objects.get("parts/bob/0")
    flipped = sealed[:100] + bytes([sealed[100] ^ 1]) + sealed[101:]
    for changed in (sealed[:-1], flipped, sealed[: 64 + 65_552]):
        stored.write_bytes(changed)
        with pytest.raises(OutputDamaged):
            await objects.get("parts/ann/one/0")


KEY = "a-key-of-ann-that-is-long"
UI = "https://temporal.example"
"""The origin of the Temporal UI in the settings of tests."""


async def as_the_ui(api: httpx.AsyncClient, path: str, *payloads: Payload, origin: str = UI) -> httpx.Response:
    headers = {"Origin": origin, "X-Namespace": "default"}
    return await api.post(path, json=MessageToDict(Payloads(payloads=payloads)), headers=headers)


def data_of(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [base64.b64decode(payload["data"]).decode() for payload in answer.json()["payloads"]]


async def test_the_temporal_ui_has_payloads_decrypted(service: Service, answers: dict[str, Any]) -> None:
    plain = await Client.connect(service.temporal_address)
    async with service.http() as api:
        long = await completed(api, {"tool": "count-values", "arguments": {"values": [WORD * 40_000]}})
        kept: list[Payload] = []
        for task_id in (answers["said"]["task"]["id"], long["task"]["id"]):
            [event, *_] = (await plain.get_workflow_handle(task_id).fetch_history()).events
            kept.append(event.workflow_execution_started_event_attributes.input.payloads[0])
        encrypted, reference = kept
        assert encrypted.metadata["encoding"] == b"binary/encrypted"
        decoded = await as_the_ui(api, "/codec/decode", encrypted, reference)
        assert decoded.headers["Access-Control-Allow-Origin"] == UI
        shown, still_a_reference = data_of(decoded)
        assert json.loads(shown)["arguments"] == {"name": WORD}
        assert still_a_reference.encode() == reference.data
        [fetched] = data_of(await as_the_ui(api, "/codec/download", reference))
        assert json.loads(fetched)["arguments"] == {"values": [WORD * 40_000]}

        refused = await as_the_ui(api, "/codec/decode", encrypted, origin="https://elsewhere.example")
        assert "Access-Control-Allow-Origin" not in refused.headers
        assert (await api.post("/codec/decode", json={"payloads": 7})).status_code == 400
        elsewhere = await api.post("/codec/decode", json={"payloads": []}, headers={"X-Namespace": "other"})
        assert elsewhere.status_code == 400


async def test_only_pages_of_the_ui_may_ask(service: Service) -> None:
    wanted = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type,x-namespace"}
    async with service.http() as api:
        allowed = await api.options("/codec/decode", headers={"Origin": UI, **wanted})
        assert (allowed.status_code, allowed.headers["Access-Control-Allow-Origin"]) == (200, UI)
        for path, origin in (("/codec/decode", "https://elsewhere.example"), ("/v1/tasks", UI)):
            refused = await api.options(path, headers={"Origin": origin, **wanted})
            assert refused.status_code in (400, 405)
            assert "Access-Control-Allow-Origin" not in refused.headers


async def test_a_caller_with_a_key_may_not_decode_payloads(service: Service, client_with: Any) -> None:
    settings = api_settings(service.sandbox, data_dir=service.folder, api_keys=SecretStr(f"ann:{KEY}"))
    async with serving_api(await client_with("first"), settings) as api:
        for headers, status in (({}, 401), ({"Authorization": f"Bearer {KEY}"}, 403)):
            answer = await api.post("/codec/decode", json={"payloads": []}, headers=headers)
            assert answer.status_code == status


async def use_codec(page: Page, url: str) -> None:
    """Set the codec server in the dialog of the Temporal UI, as an operator does."""
    await page.get_by_test_id("data-encoder-status").click()
    await page.get_by_test_id("use-local-endpoint-input").check(force=True)
    await page.get_by_test_id("data-encoder-endpoint-input").fill(url)
    await page.get_by_test_id("confirm-modal-button").filter(has_text="Apply").click()


@pytest.mark.thorough
@pytest.mark.needs("chromium-headless-shell")
async def test_the_temporal_ui_shows_histories_to_whom_a_key_with_admin_belongs_and_to_nobody_else(
    service: Service, answers: dict[str, Any], client_with: Any, tmp_path: Path
) -> None:
    keys: dict[str, str] = {}
    for name, scopes in (("operator", frozenset[Scope]({"admin"})), ("agent", ALL_BUT_ADMIN)):
        key, hashed = new_key(name)
        keys[name] = key.get_secret_value()
        entry = KeyEntry(id=name, caller=f"key:{name}", hash=str(hashed), scopes=scopes)
        add_key(tmp_path / "policy.toml", entry)
    settings = api_settings(
        service.sandbox,
        data_dir=service.folder,
        policy_file=tmp_path / "policy.toml",
        temporal_ui_url=service.temporal_ui_url,
    )
    async with service.http() as api:
        call = {"tool": "count-values", "arguments": {"values": [WORD * 40_000]}}
        long = (await completed(api, call))["task"]["id"]
    task = f"{service.temporal_ui_url}/namespaces/default/workflows/{answers['said']['task']['id']}"
    async with (
        serving_api(await client_with("first"), settings) as api,
        proxy_with_key(api) as proxy,
        running_chromium() as browser,
    ):
        page = await browser.new_page()
        shown = page.get_by_text(WORD).first
        proxy.key = keys["agent"]
        await page.goto(task)
        await use_codec(page, f"{proxy.url}/codec")
        await page.goto(task)
        await eventually(lambda: ("POST", "/codec/decode", 403) in proxy.answers)
        assert await shown.count() == 0
        proxy.key = keys["operator"]
        await page.goto(task)
        await expect(shown).to_be_visible(timeout=60_000)
        # The browser asked first, since the page is from another origin.
        assert ("OPTIONS", "/codec/decode", 200) in proxy.answers
        # What is in the store is there for download.
        await page.goto(task.replace(answers["said"]["task"]["id"], long))
        async with page.expect_download(timeout=60_000) as download:
            await page.get_by_role("button", name=re.compile(r"^[\d.]+ KB$")).first.click()
        assert WORD * 40_000 in (await (await download.value).path()).read_text()
        assert ("POST", "/codec/download", 200) in proxy.answers
        # A page from anywhere else gets nothing, whoever looks at it.
        await page.goto(f"{service.sandbox.url}/sandbox/healthz")
        asked = "url => fetch(url, {method: 'POST', body: '{}'}).then(() => 'read', () => 'blocked')"
        assert await page.evaluate(asked, f"{proxy.url}/codec/decode") == "blocked"


@pytest.mark.slow
async def test_a_task_waits_for_a_missing_key_and_is_not_taken_for_stuck(
    service: Service, settings: dict[str, str], client_with: Any, tmp_path: Path
) -> None:
    service.worker.process.kill()
    service.worker.process.wait()
    # As an operator does who accepts that the key is lost: no worker begins without it otherwise.
    (service.outputs / "owner" / "default.json").unlink()
    port = free_port()

    def worker(*names: str):
        environment = settings_environment(
            service.temporal_address,
            service.sandbox,
            **settings,
            OUTLAST_TOOLS_FROM="docs.examples.hello_tools,tests.support.tools.large_payloads",
            OUTLAST_DATA_DIR=str(service.folder),
            OUTLAST_WORKER_METRICS_PORT=str(port),
        )
        url, log = f"http://127.0.0.1:{port}/metrics", tmp_path / "worker.log"
        ring_of_it = {"OUTLAST_SEAL_KEYS": ring(*names)}
        return started_module("outlast.worker", ready_url=url, log=log, environment=environment | ring_of_it)

    async with service.http() as api:
        with worker("second"):
            task_id = await started(api, {"tool": "hello_world", "arguments": {"name": WORD}})
            client = await client_with("second")
            run_id = (await client.get_workflow_handle(task_id).describe()).run_id

            async def failed() -> Any:
                limits = StuckLimits(attempts=2, after_seconds=0)
                description, _, stuck = await assess(client, task_id, run_id, limits)
                if failed_attempts(description) < limits.attempts:
                    return None
                events = client.get_workflow_handle(task_id).fetch_history_events()
                failures = [event.workflow_task_failed_event_attributes.failure async for event in events]
                return description, next(filter(Failure.ByteSize, failures)), stuck

            description, failure, stuck = await eventually(failed)
        assert stuck is None
        assert "'first', which is not in the ring" in (await readable(failure, client.data_converter)).message
        assert "first" not in failure.message
        summary = description.raw_description.execution_config.user_metadata.summary
        assert summary.metadata["encoding"] == b"binary/encrypted"
        with worker("first", "second"):
            assert WORD in str(await result_of(api, task_id)).lower()
