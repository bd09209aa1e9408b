"""What pages of other sites can do: nothing on a stack without keys, whatever they send and however."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.async_api import Page
from pydantic import SecretStr
from starlette.types import Message

from outlast.api.app import build_app
from outlast.api.services import Services
from outlast.api.settings import ApiSettings
from tests.integration.widgets.host import running_chromium
from tests.support.http.mcp_wire import LEGACY
from tests.support.http.pages import serving_pages
from tests.support.ports import free_port
from tests.support.stacks.api_server import connect, serving_api
from tests.support.stacks.service import SEAL_KEYS

UI = "https://temporal.example"
LISTED = "https://app.example"
CROSS_SITE = "urn:outlast:problem:cross-site"
CHANGING = [
    ("POST", "/v1/tasks"),
    ("POST", "/v1/tasks/"),
    ("POST", "/v1/tasks/t/cancel"),
    ("POST", "/v1/schedules/s/trigger"),
    ("POST", "/v1/saved-calls/c/run"),
    ("DELETE", "/v1/sessions/s"),
    ("PUT", "/v1/saved-calls/c"),
    ("PATCH", "/v1/schedules/s"),
    ("POST", "/v1/batches/uploads"),
    ("POST", "/v1/adapters/openai"),
    ("POST", "/mcp"),
    ("DELETE", "/mcp"),
    ("POST", "/codec/decode"),
    ("POST", "/healthz"),
    ("POST", "/nothing"),
    ("post", "/v1/tasks"),
    ("QUERY", "/v1/tasks"),
]
OPENING = [("GET", "/v1/tasks/t/events"), ("GET", "/v1/tasks/t/rows"), ("GET", "/mcp"), ("GET", "/v1/tasks")]
"""What holds something of a caller's for as long as it is open, or uses up its requests."""
FOREIGN: list[list[tuple[str, str]]] = [
    [("Sec-Fetch-Site", "cross-site")],
    [("Sec-Fetch-Site", "same-site")],
    [("Sec-Fetch-Site", "Same-Origin")],
    [("Sec-Fetch-Site", "")],
    [("Sec-Fetch-Site", "same-origin"), ("Sec-Fetch-Site", "cross-site")],
    [("Sec-Fetch-Site", "cross-site"), ("Origin", "http://127.0.0.1:{port}")],
    [("Origin", "https://evil.example")],
    [("Origin", "null")],
    [("Origin", "")],
    [("Origin", "http://127.0.0.1:1")],
    [("Origin", "http://127.0.0.1")],
    [("Origin", "http://localhost:{port}")],
    [("Origin", "http://127.0.0.1.:{port}")],
    [("Origin", "http://127.0.0.1:{port}"), ("Origin", "https://evil.example")],
    [("Origin", "http://127.0.0.1:{port} https://evil.example")],
    [("Origin", f"{LISTED}."), ("Referer", LISTED)],
    [("Origin", f"{LISTED}:8443")],
    [("Origin", f"{LISTED}.evil.example")],
    [("Origin", "https://evil.example"), ("X-Forwarded-Host", "evil.example"), ("Forwarded", "host=evil.example")],
    [("Origin", "https://evil.example"), ("X-HTTP-Method-Override", "GET")],
]
OWN: list[list[tuple[str, str]]] = [
    [],
    [("Sec-Fetch-Site", "same-origin")],
    [("Sec-Fetch-Site", "none")],
    [("Sec-Fetch-Site", "same-origin"), ("Origin", "null")],
    [("Sec-Fetch-Mode", "cors")],
    [("Origin", "http://127.0.0.1:{port}")],
    [("Origin", "HTTP://127.0.0.1:{port}")],
    [("Sec-Fetch-Site", "cross-site"), ("Origin", LISTED)],
    [("Origin", f"{LISTED}:443")],
    [("Sec-Fetch-Site", "cross-site"), ("Origin", "http://tool.example:8123")],
]
"""Programs, pages of this server, and pages of the origins in the settings."""


def settings_in(folder: Path, **settings: Any) -> ApiSettings:
    given = {"allowed_origins": f"{LISTED}, http://tool.example:*", "temporal_ui_url": f"{UI}/some/path", **settings}
    return ApiSettings(data_dir=folder, seal_keys=SecretStr(SEAL_KEYS), default_actors="", **given)


@asynccontextmanager
async def without_keys(folder: Path, **settings: Any) -> AsyncIterator[httpx.AsyncClient]:
    client = await connect(f"127.0.0.1:{free_port()}", lazy=True)
    async with serving_api(client, settings_in(folder, **settings), whole=True) as http:
        yield http


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    async with without_keys(tmp_path) as http:
        yield http


def sent(headers: list[tuple[str, str]], api: httpx.AsyncClient) -> list[tuple[str, str]]:
    return [(name, value.format(port=api.base_url.port)) for name, value in headers]


async def test_pages_of_other_sites_change_nothing_at_any_entry_point(api: httpx.AsyncClient) -> None:
    for headers in FOREIGN:
        for method, path in [*CHANGING, *OPENING]:
            answer = await api.request(method, path, headers=sent(headers, api))
            assert (answer.status_code, answer.json()["type"]) == (403, CROSS_SITE), (method, path, headers)
            assert "access-control-allow-origin" not in answer.headers
            assert "OUTLAST_ALLOWED_ORIGINS" in answer.json()["detail"]


async def test_programs_and_the_pages_that_may_are_served(api: httpx.AsyncClient) -> None:
    for headers in OWN:
        for method, path in [*CHANGING, *OPENING]:
            if path.endswith(("/events", "/rows")) or (method, path) == ("GET", "/v1/tasks"):
                continue  # these ask a Temporal server, which is not there
            answer = await api.request(method, path, headers=sent(headers, api))
            assert answer.status_code != 403, (method, path, headers)


async def test_documents_probes_and_links_that_somebody_follows_are_for_every_page(api: httpx.AsyncClient) -> None:
    embedded = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
    for path in ("/healthz", "/openapi.json", "/docs", "/mcp/server-card", "/.well-known/mcp/catalog.json"):
        assert (await api.get(path, headers={"Origin": "https://evil.example", **embedded})).status_code == 200
    followed = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert (await api.get("/v1/providers", headers=followed)).status_code == 200
    assert (await api.get("/v1/providers", headers={**followed, "Sec-Fetch-Dest": "iframe"})).status_code == 403
    assert (await api.post("/v1/tasks", headers=followed)).status_code == 403


async def test_pages_of_the_temporal_ui_may_decode_and_nothing_else(api: httpx.AsyncClient) -> None:
    page = {"Origin": UI, "Sec-Fetch-Site": "cross-site"}
    decoded = await api.post("/codec/decode", json={"payloads": []}, headers=page)
    assert (decoded.status_code, decoded.headers["access-control-allow-origin"]) == (200, UI)
    for path in ("/v1/tasks", "/mcp", "/codecs/decode"):
        assert (await api.post(path, json={}, headers=page)).status_code == 403


async def test_two_credentials_are_none(api: httpx.AsyncClient) -> None:
    twice = [("Authorization", "Bearer ann-0123456789abcdef"), ("authorization", "Bearer ann-0123456789abcdef")]
    for method, path in [*CHANGING, *OPENING, ("GET", "/healthz"), ("OPTIONS", "/v1/tasks")]:
        for headers in (twice, [("Authorization", ""), twice[0]], [twice[0], ("Authorization", "Basic eDp5")]):
            answer = await api.request(method, path, headers=headers)
            assert (answer.status_code, answer.json()["type"]) == (400, "urn:outlast:problem:bad-request")
            assert "several Authorization headers" in answer.json()["detail"]


async def test_a_websocket_of_another_site_is_closed_before_it_opens(tmp_path: Path) -> None:
    """The server speaks none so far; this holds the entrance to it should it ever do."""
    app = build_app(Services(settings_in(tmp_path), await connect(f"127.0.0.1:{free_port()}", lazy=True)))
    said: list[Message] = []

    async def send(message: Message) -> None:
        said.append(message)

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    headers = [(b"host", b"127.0.0.1:8400"), (b"origin", b"https://evil.example")]
    scope = {"type": "websocket", "scheme": "ws", "path": "/v1/tasks/t/events", "raw_path": b"", "query_string": b""}
    await app({**scope, "headers": headers, "subprotocols": [], "client": ("127.0.0.1", 1)}, receive, send)
    assert [message["type"] for message in said] == ["websocket.close"]
    assert said[0]["code"] == 1008


EVERYTHING_A_PAGE_CAN_SEND = """
async url => {
    const kinds = [];
    const note = kind => () => kinds.push(kind);
    for (const [path, type] of [["/v1/tasks/t/cancel", "text/plain"], ["/v1/saved-calls/c/run", "text/plain"],
                                ["/v1/schedules/s/trigger", "multipart/form-data"], ["/codec/decode", "text/plain"],
                                ["/mcp", "text/plain"]]) {
        const frame = document.createElement("iframe");
        frame.name = `f${kinds.length}`;
        document.body.append(frame);
        const form = document.createElement("form");
        Object.assign(form, {method: "POST", action: url + path, enctype: type, target: frame.name});
        const field = document.createElement("input");
        Object.assign(field, {name: '{"tool": "call-actor", "x": "', value: '"}'});
        form.append(field);
        document.body.append(form);
        const loaded = new Promise(done => frame.addEventListener("load", done, {once: true}));
        form.submit();
        await loaded;
        kinds.push("form");
    }
    for (const method of ["POST", "GET"])
        for (const path of ["/v1/tasks/t/cancel", "/mcp", "/codec/decode", "/v1/tasks/t/events"])
            await fetch(url + path, {method, mode: "no-cors", ...(method === "POST" ? {body: "{}"} : {})})
                .then(note("no-cors"), note("no-cors failed"));
    for (const method of ["POST", "PUT", "DELETE"])
        await fetch(url + "/v1/tasks", {method, headers: {"Content-Type": "application/json"}, body: "{}"})
            .then(note("cors was answered"), note("cors"));
    navigator.sendBeacon(url + "/v1/tasks/t/cancel", "{}");
    await new Promise(done => {
        const image = new Image();
        image.onload = image.onerror = done;
        image.src = url + "/v1/tasks/t/result";
    });
    kinds.push("image");
    await new Promise(done => {
        const events = new EventSource(url + "/v1/tasks/t/events");
        events.onopen = () => { kinds.push("events opened"); done(); };
        events.onerror = () => { events.close(); kinds.push("events"); done(); };
    });
    for (const path of ["/v1/tasks/t/events", "/mcp"])
        await new Promise(done => {
            const socket = new WebSocket(url.replace("http", "ws") + path);
            socket.onopen = () => { kinds.push("socket opened"); done(); };
            socket.onclose = () => { kinds.push("socket"); done(); };
        });
    return kinds;
}
"""


async def reached(api: httpx.AsyncClient) -> set[str]:
    """Routes that some request has reached, as the metrics count them; preflight requests change nothing."""
    lines = (await api.get("/metrics")).text.splitlines()
    counted = [line for line in lines if line.startswith("outlast_http_requests_total{") and "OPTIONS" not in line]
    return {line.partition('route="')[2].partition('"')[0] for line in counted}


@pytest.mark.needs("chromium-headless-shell")
@pytest.mark.parametrize("name", ["localhost", "127.0.0.1"])
async def test_a_page_of_another_site_in_a_browser_reaches_nothing(api: httpx.AsyncClient, name: str) -> None:
    before = await reached(api)
    seen: list[tuple[str, int]] = []
    with serving_pages() as site:
        address = site.page("/evil", "<title>Free holidays</title>").replace("127.0.0.1", name)
        async with running_chromium() as browser:
            page = await browser.new_page()
            page.on("response", lambda answer: seen.append((answer.request.method, answer.status)))
            await page.goto(address)
            seen.clear()
            kinds = await page.evaluate(EVERYTHING_A_PAGE_CAN_SEND, str(api.base_url).rstrip("/"))
    assert sorted(set(kinds)) == ["cors", "events", "form", "image", "no-cors", "socket"]
    answered = [(method, status) for method, status in seen if method != "OPTIONS"]
    assert len(answered) > 12
    assert {status for _, status in answered} == {403}
    assert await reached(api) <= before | {"(none)", "/metrics"}


async def run_in(page: Page, script: str, *given: Any) -> Any:
    return await page.evaluate(script, list(given))


REQUEST = """
async ([url, method, body, headers]) => {
    const answer = await fetch(url, {method, body, headers}).catch(error => null);
    if (answer === null) return null;
    return [answer.status, answer.headers.get("mcp-session-id"), answer.headers.get("x-request-id")];
}
"""


@pytest.mark.needs("chromium-headless-shell")
async def test_pages_of_this_server_and_allowed_ones_work_in_a_browser(tmp_path: Path) -> None:
    params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "page", "version": "1"}}
    initialize = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
    accepts = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    with serving_pages() as site, serving_pages() as ui:
        app = site.page("/app", "<title>App</title>").replace("127.0.0.1", "localhost")
        allowed = app.removesuffix("/app")
        async with (
            without_keys(tmp_path, allowed_origins=allowed, temporal_ui_url=ui.url) as api,
            running_chromium() as browser,
        ):
            url = str(api.base_url).rstrip("/")
            page = await browser.new_page()
            await page.goto(f"{url}/docs")
            status, _, request_id = await run_in(page, REQUEST, f"{url}/v1/tasks", "POST", "{}", accepts)
            assert (status, bool(request_id)) == (422, True)
            await page.goto(app)
            status, session, _ = await run_in(page, REQUEST, f"{url}/mcp", "POST", initialize, accepts)
            assert (status, bool(session)) == (200, True)
            ended = {"Mcp-Session-Id": session}
            assert (await run_in(page, REQUEST, f"{url}/mcp", "DELETE", None, ended))[0] == 200
            await page.goto(ui.page("/ui", "<title>Temporal</title>"))
            decode = (f"{url}/codec/decode", "POST", '{"payloads": []}', {**accepts, "X-Namespace": "default"})
            assert (await run_in(page, REQUEST, *decode))[0] == 200
            assert await run_in(page, REQUEST, f"{url}/v1/tasks", "POST", "{}", accepts) is None
