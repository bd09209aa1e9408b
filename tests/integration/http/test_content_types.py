"""A JSON body that is not declared as JSON: the error names the header and its right value."""

import httpx
import pytest

BODY = b'{"tool": "get-actor-run", "arguments": {"runId": "r"}}'


@pytest.mark.parametrize("path", ["/v1/tasks", "/v1/tools/get-actor-run/call", "/v1/sessions"])
@pytest.mark.parametrize("sent", ["application/x-www-form-urlencoded", "text/plain; charset=utf-8"])
async def test_another_content_type_is_named_with_the_right_one(api: httpx.AsyncClient, path: str, sent: str) -> None:
    """`curl -d` sends the first of them when it is not told otherwise."""
    response = await api.post(path, content=BODY, headers={"Content-Type": sent})

    problem = response.json()
    assert (response.status_code, problem["type"]) == (415, "urn:outlast:problem:unsupported-media-type")
    assert f"`{sent}`" in problem["detail"]
    assert "`Content-Type: application/json`" in problem["detail"]


async def test_a_missing_content_type_is_named(api: httpx.AsyncClient) -> None:
    response = await api.post("/v1/tasks", content=BODY)

    assert response.status_code == 415
    assert "no Content-Type header" in response.json()["detail"]


@pytest.mark.parametrize("sent", ["application/json", "Application/JSON; charset=utf-8"])
async def test_json_that_breaks_the_schema_is_told_of_the_schema(api: httpx.AsyncClient, sent: str) -> None:
    response = await api.post("/v1/tasks", content=b'{"tool": 1}', headers={"Content-Type": sent})

    assert response.status_code == 422
    assert [violation["path"] for violation in response.json()["violations"]] == ["/tool"]


async def test_a_request_without_a_body_is_told_of_the_body(api: httpx.AsyncClient) -> None:
    assert (await api.post("/v1/tasks")).status_code == 422


async def test_the_error_is_in_the_openapi_document(api: httpx.AsyncClient) -> None:
    paths = (await api.get("/openapi.json")).json()["paths"]
    with_body = [operation for path in paths.values() for operation in path.values() if "requestBody" in operation]
    assert with_body
    assert all("415" in operation["responses"] for operation in with_body)
