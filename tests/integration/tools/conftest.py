"""The tools as a client calls them: over REST, through worker and API processes, against the sandbox platform."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import jsonschema
import pytest
from apify_client import ApifyClient

from tests.support.http.pages import WebServer, serving_pages
from tests.support.paths import TEST_ACTORS
from tests.support.stacks.fixtures import http_fixture, service_fixture
from tests.support.stacks.sandbox import Sandbox
from tests.support.stacks.service import Service

MAX_ANSWER_BYTES = 65_536
CALLER_TOKEN = "apify_api_tokenOfTheCallerOfToolTests"


service = service_fixture(settings_from="settings", actors=TEST_ACTORS)
http = http_fixture()


@pytest.fixture(scope="session")
def docs_site() -> Iterator[WebServer]:
    """The documentation that the service may read: what lies below `/site/`."""
    with serving_pages() as server:
        yield server


@pytest.fixture(scope="session")
def settings(docs_site: WebServer) -> dict[str, str]:
    return {
        "OUTLAST_DOCS_SITE_URL": f"{docs_site.url}/site/",
        "OUTLAST_DOCS_INDEX_SECONDS": "0",
        "OUTLAST_ALLOW_PRIVATE_ADDRESSES": "true",
    }


@pytest.fixture
def sandbox(service: Service) -> Sandbox:
    return service.sandbox


@pytest.fixture
def platform(sandbox: Sandbox) -> ApifyClient:
    """The sandbox as the operator's account sees it, for making what the tools then read."""
    return ApifyClient(sandbox.token, api_url=sandbox.url)


@dataclass(frozen=True)
class ToolAnswer:
    """What a tool answered, checked against what it promises."""

    text: str
    structured: dict[str, Any]
    error: dict[str, Any] | None
    content: list[dict[str, Any]]


class ToolCaller:
    """Calls tools and checks of every answer that it fits the tool's output schema and is no larger than allowed."""

    def __init__(self, http: httpx.AsyncClient, schemas: dict[str, dict[str, Any]]) -> None:
        self._http = http
        self._schemas = schemas

    async def __call__(self, tool: str, *, mode: str = "default", **arguments: Any) -> ToolAnswer:
        answer = await self._http.post(f"/v1/tools/{tool}/call", json={"arguments": arguments, "mode": mode})
        assert answer.status_code == 200, answer.text
        result = answer.json()["result"]
        text = "\n".join(block["text"] for block in result["content"] if block["type"] == "text")
        assert len(text.encode()) <= MAX_ANSWER_BYTES
        if not result["is_error"]:
            jsonschema.validate(result["structured"], self._schemas[tool])
        return ToolAnswer(text, result.get("structured") or {}, result.get("error"), result["content"])

    async def violations(self, tool: str, **arguments: Any) -> list[str]:
        """The paths of the arguments that break the tool's schema."""
        answer = await self._http.post(f"/v1/tools/{tool}/call", json={"arguments": arguments})
        assert answer.status_code in (400, 422), answer.text
        return [entry["path"] for entry in answer.json()["error"]["violations"]]


@pytest.fixture
async def call(http: httpx.AsyncClient) -> ToolCaller:
    listed = (await http.get("/v1/tools")).raise_for_status().json()["tools"]
    return ToolCaller(http, {tool["name"]: tool["output_schema"] for tool in listed})
