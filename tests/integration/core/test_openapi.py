"""The published OpenAPI document is sane. That the API keeps it is tested in `tests/integration/hostile`."""

from typing import Any

import httpx
import pytest

OPERATIONS = {
    ("post", "/v1/tasks"),
    ("get", "/v1/tasks"),
    ("get", "/v1/tasks/{task_id}"),
    ("get", "/v1/tasks/{task_id}/result"),
    ("post", "/v1/tasks/{task_id}/cancel"),
    ("post", "/v1/tasks/{task_id}/resurrect"),
    ("post", "/v1/tasks/{task_id}/resolve"),
    ("post", "/v1/programs"),
    ("get", "/v1/servers"),
    ("get", "/v1/servers/{name}"),
    ("get", "/v1/servers/{name}/pin"),
    ("get", "/v1/tasks/{task_id}/events"),
    ("get", "/v1/tasks/{task_id}/rows"),
    ("post", "/v1/batches"),
    ("post", "/v1/batches/uploads"),
    ("get", "/v1/batches"),
    ("get", "/v1/batches/{batch_id}"),
    ("get", "/v1/batches/{batch_id}/results"),
    ("post", "/v1/batches/{batch_id}/cancel"),
    ("post", "/v1/batches/{batch_id}/resume"),
    ("post", "/v1/batches/{batch_id}/retry"),
    ("get", "/v1/usage"),
    ("get", "/v1/me"),
    ("get", "/v1/health"),
    ("get", "/v1/policy/explain"),
    ("get", "/v1/tasks/{task_id}/call"),
    ("post", "/v1/tasks/{task_id}/again"),
    ("get", "/v1/schedules/upcoming"),
    ("get", "/v1/operations"),
    ("get", "/v1/operations/holdings"),
    ("get", "/v1/tools"),
    ("get", "/v1/tools/{name}"),
    ("post", "/v1/tasks/{task_id}/input"),
    ("post", "/v1/tools/{name}/call"),
    ("get", "/v1/batches/{batch_id}/events"),
    ("post", "/v1/schedules"),
    ("get", "/v1/schedules"),
    ("get", "/v1/schedules/{schedule_id}"),
    ("patch", "/v1/schedules/{schedule_id}"),
    ("delete", "/v1/schedules/{schedule_id}"),
    ("post", "/v1/schedules/{schedule_id}/pause"),
    ("post", "/v1/schedules/{schedule_id}/resume"),
    ("post", "/v1/schedules/{schedule_id}/trigger"),
    ("post", "/v1/schedules/{schedule_id}/backfill"),
    ("get", "/v1/schedules/{schedule_id}/times"),
    ("get", "/v1/saved-calls"),
    ("get", "/v1/saved-calls/{name}"),
    ("put", "/v1/saved-calls/{name}"),
    ("delete", "/v1/saved-calls/{name}"),
    ("post", "/v1/saved-calls/{name}/run"),
    ("post", "/v1/webhooks"),
    ("get", "/v1/webhooks"),
    ("get", "/v1/webhooks/deliveries"),
    ("post", "/v1/webhooks/deliveries/replay"),
    ("get", "/v1/webhooks/deliveries/{delivery_id}"),
    ("post", "/v1/webhooks/deliveries/{delivery_id}/replay"),
    ("get", "/v1/webhooks/{webhook_id}"),
    ("patch", "/v1/webhooks/{webhook_id}"),
    ("delete", "/v1/webhooks/{webhook_id}"),
    ("post", "/v1/webhooks/{webhook_id}/rotate"),
    ("post", "/v1/webhooks/{webhook_id}/test"),
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
