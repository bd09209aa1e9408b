"""Problem documents of requests that no route takes, or whose body cannot be read: what is wrong, and what to do."""

from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from pydantic import BaseModel

from outlast.api.http.problems import install_problem_handlers
from outlast.suggestions import suggested


class Body(BaseModel):
    tool: str
    arguments: dict[str, Any] = {}


async def detail(method: str, path: str, content: str | None = None) -> str:
    app = FastAPI()
    install_problem_handlers(app)

    @app.post("/v1/tasks")
    async def start(body: Body) -> str:
        return body.tool

    @app.get("/v1/tasks")
    async def tasks() -> list[str]:
        return []

    headers = {"Content-Type": "application/json"}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        return (await client.request(method, path, content=content, headers=headers)).json()["detail"]


@pytest.mark.parametrize(
    ("method", "path", "content", "text"),
    [
        ("GET", "/v1/taks", None, "There is nothing at this path, but at /v1/tasks; /docs lists the endpoints."),
        ("GET", "/elsewhere", None, "There is nothing at this path; /docs lists the endpoints."),
        ("PUT", "/v1/tasks", None, "This path has no PUT: send GET, POST."),
        ("POST", "/v1/tasks", None, "(body): The request has no body: send JSON"),
        ("POST", "/v1/tasks", '{"tool":"hello"', "(body): Expecting ',' delimiter at character 16"),
        ("POST", "/v1/tasks", '{"tool":"t","arguments":"x"}', "/arguments: Input should be an object"),
        ("POST", "/v1/tasks", "{}", "/tool: Field required"),
    ],
)
async def test_the_detail_says_what_to_send(method: str, path: str, content: str | None, text: str) -> None:
    assert await detail(method, path, content) == text


def test_at_most_ten_names_are_suggested_similar_ones_first() -> None:
    names = [f"other-{number}" for number in range(30)] + ["hello"]
    shown = suggested(names, "hllo")
    assert shown.startswith("hello, ")
    assert shown.endswith("other-8, and 21 more")
    assert suggested(["a", "b"]) == "a, b"
