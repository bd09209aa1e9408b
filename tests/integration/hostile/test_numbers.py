"""Numbers that are none, or far too many: every field of every request that is money, or a number, refuses them.

The fields are found in what the API publishes, so a new one is tested without a word here.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.hostile.party import Party
from tests.support.hostile.request_fields import VALUE, Field, Operation, Schemas, operations, with_value
from tests.support.http.mcp_wire import LEGACY, MODERN

JSON_TYPE = {"Content-Type": "application/json"}
MOST_USD = 1_000_000_000
PYDANTIC_BOUNDS = {"ge", "gt", "le", "lt"}
ADMINS = ("/v1/servers", "/v1/servers/{name}", "/v1/servers/{name}/pin")
"""Routes of which these callers may not use the parameters."""
NO_NUMBERS = ("1e400", "1e-3000", "NaN", "Infinity", "-Infinity", "1e900000", "-1e900000", "9" * 5_000)
NO_PARAMETERS = ("1e400", "NaN", "Infinity", "-Infinity", "1e900000", "9" * 400)
NO_MONEY = (
    *NO_NUMBERS,
    "1e30",
    "-0",
    "-0.0",
    "0",
    "-1",
    "1000000000.01",
    "0.0000000000001",
    "true",
    "false",
    "[]",
    "{}",
    *(f'"{text}"' for text in ("1e30", "1e400", "1e-3000", "NaN", "Infinity", "-0", "-1", "1e900000", "five", "")),
    '"{}"'.format("9" * 100_000),
)
MOST_OF_HEADER = 4_000
REPORTED = ("turns", 0, "spent", "usd")
"""What a turn of an imported conversation has cost, for readers only: 0 is an amount."""
MONEY = ("0.000000000001", "0.1", "1", "1000000000", "1e9", "1e-12")


def test_money_in_a_request_is_within_bounds(everybody: list[Party]) -> None:
    ann = everybody[0]
    tried = list(of_rest(ann, lambda field: field.is_money and field.place != REPORTED))
    assert {field.name for _, field in tried} >= {"budget_usd", "max_total_charge_usd", "usd"}
    for operation, field in tried:
        assert field.schema.get("maximum") == MOST_USD, f"{operation.method} {operation.path}: {field}"
        for value in NO_MONEY:
            assert refused(ann, operation, field, value), f"{operation.method} {operation.path}: {field} = {value[:50]}"
        for value in MONEY:
            assert not refused(ann, operation, field, value), f"{operation.method} {operation.path}: {field} = {value}"
    assert sorted(misspelt_bounds(ann.ask("GET", "/openapi.json").json())) == []
    assert ann.ask("GET", "/v1/batches").json()["batches"] == []
    assert ann.ask("GET", "/v1/schedules").json()["schedules"] == []


def test_every_other_number_in_a_request_has_bounds_and_keeps_them(everybody: list[Party]) -> None:
    ann = everybody[0]
    for operation, field in of_rest(ann, lambda field: field.is_number and not field.is_money):
        most = field.schema.get("maximum", field.schema.get("exclusiveMaximum"))
        told = f"{operation.method} {operation.path}: {field}"
        if "const" in field.schema:
            continue
        assert most is not None, f"{told} has no maximum"
        for value in (*NO_NUMBERS, str(int(most) + 1), '"nan"', '"1e999"'):
            assert refused(ann, operation, field, value), f"{told} = {value[:50]}"


def test_numbers_in_urls_have_bounds(everybody: list[Party]) -> None:
    ann = everybody[0]
    for operation in documented(ann):
        for field in operation.parameters("query"):
            if not field.is_number:
                continue
            told = f"{operation.method} {operation.path}: {field}"
            assert field.schema.get("maximum") is not None, f"{told} has no maximum"
            for value in (
                "1e400",
                "NaN",
                "Infinity",
                "-Infinity",
                "1e900000",
                "9" * 400,
                str(field.schema["maximum"] + 1),
            ):
                status, content = ann.peek(operation.method.upper(), operation.url, params={field.name: value})
                expected = 403 if operation.path in ADMINS else 422
                assert status == expected, f"{told} = {value[:50]}: {content[:500]!r}"


@pytest.mark.parametrize("mode", ["default", "openai", "apify"])
def test_numbers_in_the_arguments_of_tools_have_bounds(everybody: list[Party], mode: str) -> None:
    """Of every tool that MCP lists, and of the options of a call in `_meta`."""
    ann = everybody[0]
    path = f"/mcp?mode={mode}&tools=actors,docs,runs,storage,tasks,schedules,batches,call-schedules,dev,experimental"
    tools: list[dict[str, Any]] = rpc(ann, path, "tools/list", {})["result"]["tools"]
    tried = 0
    for tool in tools:
        schemas = Schemas(tool["inputSchema"].get("$defs", {}))
        for field in schemas.fields(tool["inputSchema"]):
            if field.is_number:
                arguments = schemas.least(tool["inputSchema"], field.place)
                for value in NO_MONEY if field.is_money else NO_NUMBERS:
                    tried += 1
                    told = f"{tool['name']}: {field} = {value[:50]}"
                    params = {"name": tool["name"], "arguments": arguments}
                    assert is_refused(rpc(ann, path, "tools/call", params, value), field.name), told
    assert tried > 100
    assert sorted(misspelt_bounds(tools)) == []


def test_numbers_in_the_options_of_a_call_in_meta_have_bounds(everybody: list[Party]) -> None:
    ann = everybody[0]
    definitions = ann.ask("GET", "/openapi.json").json()["components"]["schemas"]
    schemas, options = Schemas(definitions), definitions["CallOptions"]
    tried = [field for field in schemas.fields(options) if field.is_number]
    assert sum(field.is_money for field in tried) > 1
    for field in tried:
        meta = {"outlast/options": schemas.least(options, field.place)}
        params = {"name": "call-actor", "arguments": {"actor": "outlast/sleeper", "input": {}}, "_meta": meta}
        for value in NO_MONEY if field.is_money else NO_NUMBERS:
            answer = rpc(ann, "/mcp", "tools/call", params, value)
            assert is_refused(answer, "options"), f"{field} = {value[:50]}"


def test_numbers_in_headers_have_bounds(everybody: list[Party]) -> None:
    """The settings of an uploaded batch, and the wish to wait. What is longer than a header may be is left out."""
    ann = everybody[0]
    (operation,) = [one for one in documented(ann) if (one.method, one.path) == ("post", "/v1/batches")]
    assert operation.body is not None
    tried = [field for field in operation.fields if field.is_number and field.place[0] not in ("items", "rows")]
    assert {field.name for field in tried} >= {"budget_usd", "max_total_charge_usd", "concurrency", "failures"}
    for field in tried:
        settings = operation.schemas.least(operation.body, field.place)
        for value in NO_MONEY if field.is_money else NO_NUMBERS:
            header = {"Outlast-Batch": with_value(settings, value).decode(), "Content-Type": "application/x-ndjson"}
            if len(value) < MOST_OF_HEADER:
                answer = ann.ask("POST", "/v1/batches/uploads", content=b"{}", headers=header)
                assert answer.status_code in (400, 422), f"{field} = {value}: {answer.text}"
                assert field.name in answer.text or "number" in answer.text, f"{field} = {value}: {answer.text}"
    for value in ("1e400", "1e30", "NaN", "Infinity", "-Infinity", "-0", "1e900000"):
        call = {"tool": "say", "arguments": {"text": "x"}}
        answer = ann.ask("POST", "/v1/tasks", json=call, headers={"Prefer": f"wait={value}"})
        assert answer.status_code == 400, f"Prefer: wait={value}: {answer.text}"
    assert ann.ask("GET", "/v1/batches").json()["batches"] == []


def test_numbers_that_no_parser_keeps_are_refused_with_their_path(everybody: list[Party]) -> None:
    for value in ("12345678901234567890123", "-9223372036854775809", "NaN", "1e400"):
        body = with_value({"arguments": {"input": {"list": [1, {"id": VALUE}]}}}, value)
        answer = everybody[0].ask("POST", "/v1/tools/call-actor/call", content=body, headers=JSON_TYPE)
        assert answer.status_code == 422
        assert answer.json()["violations"][0]["path"] == "/arguments/input/list/1/id"
    kept = '{"arguments": {"text": "9007199254740993"}}'
    assert everybody[0].ask("POST", "/v1/tools/say/call", content=kept, headers=JSON_TYPE).status_code in (200, 202)


@pytest.mark.parametrize("revision", [LEGACY, MODERN])
@pytest.mark.parametrize("value", ["1" + "0" * 30, "1e400", "NaN", "9" * 5_000])
def test_a_message_with_such_a_number_is_answered_by_its_id(everybody: list[Party], revision: str, value: str) -> None:
    """Both as a client of this revision reads an error."""
    params = {"name": "say", "arguments": {"text": VALUE}}
    answer = rpc(everybody[0], "/mcp", "tools/call", params, value, revision=revision)
    assert answer["status"] == (200 if revision == LEGACY else 400)
    assert answer["id"] == 1
    assert answer["error"]["code"] == -32602
    assert "/params/arguments/text" in answer["error"]["message"]


def misspelt_bounds(document: Any, place: str = "") -> Iterator[str]:
    """Where a published schema has a bound by pydantic's name, which no reader of JSON Schema knows."""
    if isinstance(document, dict):
        inner = [(name, value) for name, value in document.items()]  # type: ignore[misc]
        yield from (
            f"{place}/{name}" for name, value in inner if name in PYDANTIC_BOUNDS and not isinstance(value, dict)
        )
    else:
        inner = [*enumerate(document)] if isinstance(document, list) else []  # type: ignore[misc]
    for name, value in inner:
        yield from misspelt_bounds(value, f"{place}/{name}")


def documented(party: Party) -> Iterator[Operation]:
    return operations(party.ask("GET", "/openapi.json").json())


def of_rest(party: Party, is_chosen: Any) -> Iterator[tuple[Operation, Field]]:
    """The chosen fields of the bodies of all operations. One that several share is tried once in each."""
    for operation in documented(party):
        known: set[object] = set()
        for field in operation.fields:
            if field.place not in known and is_chosen(field):
                known.add(field.place)
                yield operation, field


def refused(party: Party, operation: Operation, field: Field, value: str) -> bool:
    """Whether the request is refused for the value of this field."""
    status, content = party.peek(
        operation.method.upper(), operation.url, content=operation.body_with(field, value), headers=JSON_TYPE
    )
    if status not in (400, 422):
        return False
    problem: dict[str, Any] = json.loads(content)
    paths = [one["path"] for one in problem.get("violations", [])]
    return any(f"/{field.name}" in path for path in paths)


def rpc(
    party: Party, path: str, method: str, params: dict[str, Any], value: str = "null", *, revision: str = MODERN
) -> dict[str, Any]:
    """The answer to one request of MCP, without a session, with `value` in the place of `VALUE`."""
    own = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}
    params = {**params, "_meta": {**own, **params.get("_meta", {})}}
    body = with_value({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, value)
    headers = {
        **JSON_TYPE,
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": revision,
        "Mcp-Method": method,
    }
    if method == "tools/call":
        headers["Mcp-Name"] = params["name"]
    answer = party.ask("POST", path, content=body, headers=headers)
    text = answer.text
    if answer.headers["content-type"].startswith("text/event-stream"):
        text = next(line[5:] for line in text.splitlines()[::-1] if line.startswith("data:") and line[5:].strip())
    return {"status": answer.status_code, **json.loads(text)}


def is_refused(answer: dict[str, Any], name: str) -> bool:
    """Whether the call is refused for the value of the field of this name."""
    refused = answer["status"] in (400, 422) or "error" in answer or answer["result"].get("isError")
    return bool(refused) and name in json.dumps(answer)
