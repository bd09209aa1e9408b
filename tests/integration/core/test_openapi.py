"""The published OpenAPI document is sane, and the API keeps what it promises for requests made up from it."""

from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import Case
from schemathesis.checks import not_a_server_error
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.support.stacks.service import Service

EXAMPLES = 25
SLOW_IS_FINE = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
OPERATIONS = {
    ("post", "/v1/tasks"),
    ("get", "/v1/tasks"),
    ("get", "/v1/tasks/{task_id}"),
    ("get", "/v1/tasks/{task_id}/result"),
    ("post", "/v1/tasks/{task_id}/cancel"),
    ("get", "/v1/tasks/{task_id}/events"),
    ("get", "/v1/usage"),
    ("get", "/v1/tools"),
    ("get", "/v1/tools/{name}"),
    ("post", "/v1/tasks/{task_id}/input"),
    ("post", "/v1/tools/{name}/call"),
    ("get", "/v1/providers"),
    ("post", "/v1/sessions"),
    ("get", "/v1/sessions"),
    ("post", "/v1/sessions/import"),
    ("get", "/v1/sessions/{session_id}"),
    ("patch", "/v1/sessions/{session_id}"),
    ("delete", "/v1/sessions/{session_id}"),
    ("get", "/v1/sessions/{session_id}/messages"),
    ("post", "/v1/sessions/{session_id}/messages"),
    ("get", "/v1/sessions/{session_id}/export"),
    ("get", "/v1/sessions/{session_id}/events"),
    ("get", "/v1/sessions/{session_id}/turns/{turn_id}"),
    ("post", "/v1/sessions/{session_id}/turns/{turn_id}/cancel"),
    ("get", "/v1/sessions/{session_id}/turns/{turn_id}/events"),
    ("get", "/v1/adapters/{provider}/tools"),
    ("post", "/v1/adapters/{provider}/calls"),
    ("get", "/v1/handoffs"),
    ("get", "/v1/handoffs/events"),
    ("get", "/v1/outputs/{locator}"),
    ("get", "/v1/outputs/{locator}/info"),
    ("delete", "/v1/outputs/{locator}"),
    ("get", "/healthz"),
    ("get", "/readyz"),
    ("get", "/metrics"),
}


NOT_FUZZED = {("get", "/metrics"), ("get", "/v1/handoffs/events")}
"""What Prometheus reads, and a stream without an end."""


@pytest.fixture
async def document(api: httpx.AsyncClient) -> dict[str, Any]:
    return (await api.get("/openapi.json")).raise_for_status().json()


def test_every_operation_is_published_and_described(document: dict[str, Any]) -> None:
    operations = {
        (method, path): operation for path, item in document["paths"].items() for method, operation in item.items()
    }
    assert set(operations) == OPERATIONS
    assert document["openapi"].startswith("3.1")
    identities = [operation["operationId"] for operation in operations.values()]
    assert len(identities) == len(set(identities))
    for name, operation in operations.items():
        assert operation.get("description") or operation.get("summary"), name
        for parameter in operation.get("parameters", []):
            assert parameter.get("description"), (name, parameter["name"])


def test_every_refusal_is_described_as_a_problem_document(document: dict[str, Any]) -> None:
    for path, item in document["paths"].items():
        for method, operation in item.items():
            for status, response in operation["responses"].items():
                if int(status) < 400 or path == "/readyz":
                    continue
                (media_type, content) = next(iter(response["content"].items()))
                assert media_type == "application/problem+json", (method, path, status)
                assert content["schema"] == {"$ref": "#/components/schemas/Problem"}
    assert {"Problem", "ErrorEnvelope", "Task", "TaskAnswer", "TaskPage"} <= set(document["components"]["schemas"])
    assert "HTTPValidationError" not in document["components"]["schemas"]


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    def references(node: Any) -> set[str]:
        if isinstance(node, dict):
            own = {node["$ref"]} if isinstance(node.get("$ref"), str) else set()
            return own.union(*(references(part) for part in node.values()))
        return set().union(*(references(part) for part in node)) if isinstance(node, list) else set()

    schemas = document["components"]["schemas"]
    assert {name.removeprefix("#/components/schemas/") for name in references(document)} <= set(schemas)


async def test_a_person_can_browse_it(api: httpx.AsyncClient) -> None:
    assert "text/html" in (await api.get("/docs")).headers["content-type"]


def fuzz(operation: APIOperation) -> None:
    """Ask for one operation with parameters and bodies made up from its description."""

    @given(case=operation.as_strategy())
    @settings(max_examples=EXAMPLES, phases=[Phase.explicit, Phase.generate], suppress_health_check=SLOW_IS_FINE)
    def answered_as_described(case: Case) -> None:
        case.call_and_validate(checks=CHECKS, timeout=60)

    answered_as_described()


@pytest.mark.parametrize(("method", "path"), sorted(OPERATIONS - NOT_FUZZED))
def test_requests_made_up_from_the_document_are_answered_as_it_says(service: Service, method: str, path: str) -> None:
    fuzz(schemathesis.openapi.from_url(f"{service.api_url}/openapi.json")[path][method])


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=50),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("tool", "names"),
    [
        ("get-dataset-items", ["datasetId", "offset", "limit", "fields", "omit", "clean", "desc"]),
        ("get-actor-run", ["runId"]),
        ("get-actor-log", ["runId", "lines"]),
        ("call-actor", ["actor", "input", "callOptions"]),
    ],
)
def test_whatever_arguments_a_tool_is_given_it_answers_or_refuses(
    service: Service, tool: str, names: list[str]
) -> None:
    statuses: set[int] = set()
    with httpx.Client(base_url=service.api_url, trust_env=False, timeout=60) as http:

        @given(arguments=st.dictionaries(st.sampled_from(names) | st.text(max_size=5), JSON_VALUES, max_size=4))
        @settings(max_examples=EXAMPLES, phases=[Phase.explicit, Phase.generate], suppress_health_check=SLOW_IS_FINE)
        def answers(arguments: dict[str, Any]) -> None:
            response = http.post(f"/v1/tools/{tool}/call", json={"arguments": arguments})
            statuses.add(response.status_code)
            assert response.status_code in {200, 404, 422}, response.text

        answers()
    assert 422 in statuses
