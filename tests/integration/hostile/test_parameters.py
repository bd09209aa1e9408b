"""Query parameters: a misspelt one is refused by every route, and one that is documented by none."""

import json

import pytest

from tests.support.hostile.party import Party
from tests.support.hostile.request_fields import operations

MISSPELT = {"page_size": "pagesize", "schedule_id": "scheduleid", "offset": "ofset", "wait": "wiat", "tools": "tool"}


def test_every_route_refuses_a_parameter_that_it_does_not_have(everybody: list[Party]) -> None:
    ann = everybody[0]
    tried = 0
    for operation in operations(ann.ask("GET", "/openapi.json").json()):
        if not operation.path.startswith("/v1/"):
            continue
        known = {field.name for field in operation.parameters("query")}
        for name in ["surprise", *(wrong for right, wrong in MISSPELT.items() if right in known)]:
            tried += 1
            told = f"{operation.method} {operation.path}?{name}"
            status, content = ann.peek(operation.method.upper(), operation.url, params={name: "1"}, content=b"{}")
            assert status == 422, f"{told}: {status} {content[:500]!r}"
            (violation,) = json.loads(content)["violations"]
            assert violation["path"] == f"/query/{name}", told
            assert ("did you mean" in violation["message"]) == (name != "surprise"), violation
        for name in known:
            _, content = ann.peek(operation.method.upper(), operation.url, params={name: "x"})
            assert b"Unknown parameter" not in content, f"{operation.method} {operation.path}?{name}"
    assert tried > 70


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_connection_of_mcp_with_a_misspelt_parameter_offers_nothing(everybody: list[Party], method: str) -> None:
    """It offered the default tools, which cost money."""
    answer = everybody[0].ask(method, "/mcp", params={"tool": "docs"}, json={})
    assert answer.status_code == 422
    assert "did you mean 'tools'?" in answer.json()["detail"]
