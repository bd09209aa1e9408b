"""Where items come from, and what is refused of them: with its line, before anything is started."""

import codecs
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from temporalio.client import Client

from outlast.api.access.policy.contracts import Limits
from tests.support.calls.batches import carried_out, doubles, ended, rows_of, sleepers
from tests.support.stacks.api_server import api_settings, serving_api
from tests.support.stacks.sandbox import Sandbox

JSONL, CSV = {"Content-Type": "application/x-ndjson"}, {"Content-Type": "text/csv"}


async def uploaded(
    api: httpx.AsyncClient, content: str | bytes, settings: dict[str, object], **headers: str
) -> httpx.Response:
    sent = {"Outlast-Batch": json.dumps({"tool": "double", **settings}), **headers}
    return await api.post("/v1/batches/uploads", content=content, headers=sent)


async def results(api: httpx.AsyncClient, response: httpx.Response) -> dict[str, int]:
    assert response.status_code == 201, response.text
    batch = await ended(api, response.json()["id"])
    rows = await rows_of(api, batch["id"])
    assert batch["completed"] == len(rows), rows
    return {row["key"]: row["result"]["doubled"] for row in rows}


async def test_lines_of_json_are_items_or_arguments(api: httpx.AsyncClient) -> None:
    lines = '{"key": "a", "arguments": {"number": 1}}\n\n{"number": 2}\n{"arguments": {"number": 3}}'
    assert await results(api, await uploaded(api, lines, {}, **JSONL)) == {"a": 2, "3": 4, "4": 6}


async def test_csv_becomes_what_the_tool_wants(api: httpx.AsyncClient) -> None:
    """Numbers are numbers where the schema has them; a label that reads like one stays a text."""
    table = '\ufeffsku;count;note\nA-1;3;007\nB-2;"4";"two\nlines"\n'
    settings = {"mapping": {"number": "count", "label": "note"}, "key": "sku", "delimiter": ";"}
    response = await uploaded(api, table.encode(), settings, **CSV)
    assert await results(api, response) == {"A-1": 6, "B-2": 8}


async def test_rows_of_a_dataset_and_of_a_stored_output_become_items(api: httpx.AsyncClient, sandbox: Sandbox) -> None:
    dataset = sandbox.new_dataset([{"id": n, "nested": {"value": n}} for n in range(5)])
    rows = {"dataset": dataset, "offset": 1, "limit": 3}
    body = {"tool": "double", "mapping": {"number": "nested.value"}, "key": "id", "rows": rows}
    batch = await carried_out(api, body)
    found = await rows_of(api, batch["id"])
    assert {row["key"]: row["result"]["doubled"] for row in found} == {"1": 2, "2": 4, "3": 6}
    # The results of a batch are a stored output with rows: another batch takes them up.
    chained = {"tool": "double", "mapping": {"number": "result.doubled"}, "key": "key"}
    second = await carried_out(api, {**chained, "rows": {"output": batch["results"]}})
    found = await rows_of(api, second["id"])
    assert {row["key"]: row["result"]["doubled"] for row in found} == {"1": 4, "2": 8, "3": 12}


async def test_a_mapping_builds_lists_and_objects(api: httpx.AsyncClient, sandbox: Sandbox) -> None:
    lines = '{"text": "from a line", "for": 0}\n'
    settings = {
        "tool": "call-actor",
        "arguments": {"actor": "outlast/sleeper", "input": {"steps": 1}},
        "mapping": {"input.message": "text", "input.seconds": "for"},
    }
    response = await uploaded(api, lines, settings, **JSONL)
    batch = await ended(api, response.json()["id"])
    [row] = await rows_of(api, batch["id"])
    assert row["items"][0]["message"] == "from a line"


async def test_halves_of_characters_are_replaced_wherever_items_come_from(
    api: httpx.AsyncClient, sandbox: Sandbox
) -> None:
    settings: dict[str, Any] = {
        "tool": "call-actor",
        "arguments": {"actor": "outlast/sleeper", "input": {"seconds": 0.1, "steps": 1}},
        "mapping": {"input.message": "text"},
    }
    half = '{"text": "caf\\ud83d"}'
    dataset = sandbox.new_dataset([{"text": "caf\ud83d"}])
    plain = {name: settings[name] for name in ("tool", "arguments")}
    inline = json.dumps({**plain, "items": [{"arguments": {"input": {"message": "caf\ud83d"}}}]})
    sent = {"Content-Type": "application/json"}
    responses = [
        await uploaded(api, half + "\n", settings, **JSONL),
        await uploaded(api, b"text\ncaf\xff\n", settings, **CSV),
        await api.post("/v1/batches", content=inline, headers=sent),
        await api.post("/v1/batches", json={**settings, "rows": {"dataset": dataset}}),
    ]
    for response in responses:
        assert response.status_code == 201, response.text
        batch = await ended(api, response.json()["id"])
        [row] = await rows_of(api, batch["id"])
        assert row["items"][0]["message"] == "caf\ufffd"


async def test_lines_that_are_no_items_are_named_and_nothing_is_started(api: httpx.AsyncClient) -> None:
    lines = [
        '{"number": 1}',
        "{broken",
        "[1]",
        '{"number": "many"}',
        '{"key": "same", "arguments": {"number": 1}}',
        '{"key": "same", "arguments": {"number": 2}}',
        json.dumps({"number": 1, "label": "x" * 70_000}),
        '{"number": 1, "unknown": 1}',
        '{"number": 1, "label": "\\ud800"}',
        '{"number": ' + "1" * 200_000 + "}",
        "[" * 3_000,
    ]
    before = (await api.get("/v1/batches")).json()["batches"]
    refused = await uploaded(api, "\n".join(lines), {}, **JSONL)
    assert refused.status_code == 422, refused.text
    problem = refused.json()
    assert problem["type"] == "urn:outlast:problem:batch-refused"
    named = {one["path"].split("/")[1] for one in problem["error"]["violations"]}
    assert named == {"2", "3", "4", "6", "7", "8", "10", "11"}
    assert "line 5" in next(one["message"] for one in problem["error"]["violations"] if one["path"] == "/6")
    assert (await api.get("/v1/batches")).json()["batches"] == before


@pytest.mark.parametrize(
    ("content", "settings", "headers", "status"),
    [
        ("number\n1\n2,3\n", {}, CSV, 422),
        ("number,number\n1,2\n", {}, CSV, 422),
        (b"number\n\xff\xfe\n", {}, CSV, 422),
        ("", {}, JSONL, 422),
        ('{"number": 1}', {}, {"Content-Type": "application/json"}, 415),
        ('{"number": 1}', {"tool": "no-such-tool"}, JSONL, 404),
        ('{"number": 1}', {"concurency": 5}, JSONL, 422),
        ('{"number": 1}', {"concurrency": 5_000}, JSONL, 422),
        ('{"number": 1}', {"options": {"reuse": {"max_age": "6h"}}}, JSONL, 422),
        ('{"number": 1}', {"mapping": {"number": "missing"}}, JSONL, 422),
        ('{"number": 1}', {"key": "missing"}, JSONL, 422),
        ('{"a": 1}', {"mapping": {"number.0.x": "a", "number.5.x": "a"}}, JSONL, 422),
    ],
)
async def test_what_cannot_be_a_batch_is_refused(
    api: httpx.AsyncClient, content: str | bytes, settings: dict[str, object], headers: dict[str, str], status: int
) -> None:
    refused = await uploaded(api, content, settings, **headers)
    assert refused.status_code == status, refused.text
    assert refused.json()["detail"]


async def test_settings_that_are_no_json_are_refused(api: httpx.AsyncClient) -> None:
    for settings in ("{", "[]", '{"tool": "double"' + " " * 40_000 + "}"):
        headers = {"Outlast-Batch": settings, **JSONL}
        refused = await api.post("/v1/batches/uploads", content="{}", headers=headers)
        assert refused.status_code in (400, 422), refused.text


async def test_a_request_has_items_or_rows(api: httpx.AsyncClient) -> None:
    both = {**doubles(1), "rows": {"dataset": "x"}}
    for body in ({"tool": "double"}, both, {"tool": "double", "items": []}, {"tool": "double", "rows": {}}):
        refused = await api.post("/v1/batches", json=body)
        assert refused.status_code == 422, refused.text


async def test_rows_that_are_not_there_are_refused(api: httpx.AsyncClient) -> None:
    missing = await api.post("/v1/batches", json={"tool": "double", "rows": {"dataset": "AAAAAAAAAAAAAAAAA"}})
    assert missing.status_code == 422, missing.text
    malformed = await api.post("/v1/batches", json={"tool": "double", "rows": {"output": "nonsense"}})
    assert malformed.status_code == 400, malformed.text


async def test_results_are_a_stored_output_and_a_table(api: httpx.AsyncClient) -> None:
    body = doubles(6)
    body["items"][5]["arguments"]["fails_with"] = "not_found"
    batch = await carried_out(api, body)
    info = (await api.get(f"/v1/outputs/{batch['results']}/info")).json()
    assert (info["kind"], info["count"]) == ("rows", 6)
    some = await api.get(f"/v1/outputs/{batch['results']}", params={"fields": "key,result.doubled", "limit": 2})
    assert len(some.text.splitlines()) == 2
    good = await api.get(f"/v1/outputs/{batch['results']}", params={"filter": "status == 'failed'"})
    assert [json.loads(line)["key"] for line in good.text.splitlines()] == ["n5"]
    table = await api.get(f"/v1/batches/{batch['id']}/results", params={"format": "csv", "status": "failed"})
    assert table.headers["content-type"].startswith("text/csv")
    names, values = table.text.splitlines()
    told = dict(zip(names.split(","), values.split(","), strict=True))
    assert (told["key"], told["status"], told["error_category"]) == ("n5", "failed", "not_found")


async def test_a_batch_without_rows_yet_has_empty_results(api: httpx.AsyncClient) -> None:
    response = await api.post("/v1/batches", json=sleepers(1, 600))
    batch_id = response.json()["id"]
    assert await rows_of(api, batch_id) == []
    await api.post(f"/v1/batches/{batch_id}/cancel")
    await ended(api, batch_id)


@pytest.mark.parametrize(
    ("keys", "refused"),
    [
        ([None, "1"], "line 1"),  # the first item's own number names it
        (["2", None], "line 1"),
        ([None, None, "2"], "line 2"),
        (["1", "2"], None),  # each its own number
        (["01", None, "1.0"], None),
    ],
)
async def test_a_key_that_is_the_number_of_another_item_is_refused(
    api: httpx.AsyncClient, keys: list[str | None], refused: str | None
) -> None:
    """Two items of one name would be one task, of which one item would have the other's answer."""
    items = [{"arguments": {"number": n}} | ({"key": key} if key else {}) for n, key in enumerate(keys, 1)]
    answer = await api.post("/v1/batches", json={"tool": "double", "items": items})
    if refused is None:
        named = {key or str(n): n * 2 for n, key in enumerate(keys, 1)}
        assert await results(api, answer) == named
    else:
        assert answer.status_code == 422
        assert f"is also the key of {refused}" in answer.text


SKUS: dict[str, object] = {"tool": "ship", "key": "sku"}


async def shipped(api: httpx.AsyncClient, content: str, settings: dict[str, object]) -> dict[str, Any]:
    """The arguments that the tool got, by the key of the item."""
    answer = await uploaded(api, content, settings, **CSV)
    assert answer.status_code == 201, answer.text
    batch = await ended(api, answer.json()["id"])
    return {row["key"]: row["result"]["given"] for row in await rows_of(api, batch["id"])}


@pytest.mark.parametrize(
    "content",
    [
        "sku;country\nA-1;US\nB-2;DE\n",
        "\ufeffsku;country\r\nA-1;US\r\n;\r\nB-2;DE\r\n",
        "sep=;\nsku;country\nA-1;US\nB-2;DE",
        "sku\tcountry\nA-1\tUS\nB-2\tDE\n",
        "sku|country\nA-1|US\nB-2|DE\n",
        "sku,country\nA-1,US\nB-2,DE\n\n,\n",
        "sku;country;\nA-1;US;\nB-2;DE;\n",
        'sku;"country"\n"A-1";"US"\n"B-2";DE',
    ],
)
async def test_the_delimiter_of_csv_is_detected(api: httpx.AsyncClient, content: str) -> None:
    given = await shipped(api, content, SKUS)
    assert given == {"A-1": {"sku": "A-1", "country": "US"}, "B-2": {"sku": "B-2", "country": "DE"}}


@pytest.mark.parametrize(
    ("content", "charset"),
    [
        ("sku;country\r\nÄ-1;Österreich\r\n".encode("utf-16"), ""),  # "Unicode text" of spreadsheets
        (codecs.BOM_UTF16_BE + "sku\tcountry\nÄ-1\tÖsterreich".encode("utf-16-be"), "; charset=utf-16"),
        ("sku;country\nÄ-1;Österreich\n".encode("windows-1252"), "; charset=windows-1252"),
        ("sku;country\nÄ-1;Österreich\n".encode("latin1"), '; header=present; charset="ISO-8859-1"'),
        ("sku;country\nÄ-1;Österreich\n".encode(), "; charset=UTF-8"),
    ],
)
async def test_the_encoding_of_a_file_is_marked_or_named(api: httpx.AsyncClient, content: bytes, charset: str) -> None:
    answer = await uploaded(api, content, SKUS, **{"Content-Type": f"text/csv{charset}"})
    assert answer.status_code == 201, answer.text
    batch = await ended(api, answer.json()["id"])
    [row] = await rows_of(api, batch["id"])
    assert row["result"]["given"] == {"sku": "Ä-1", "country": "Österreich"}


@pytest.mark.parametrize(
    ("content", "charset", "said"),
    [
        ("sku;country\nA-1;DE\nB-2;Österreich\n".encode("windows-1252"), "", "Line 3 is not UTF-8"),
        ("sku,country\nA-1,Київ\n".encode("windows-1251"), "", "Line 2 is not UTF-8"),
        ("sku,country\nA-1,日本の東京\n".encode("shift_jis"), "; charset=utf-8", "Line 2 is not UTF-8"),
        ("sku,country\nA-1,caf\u00e9".encode("latin1"), "", "Line 2 is not UTF-8"),
        (b"sku,country\nA-1,DE\n", "; charset=klingon", "'klingon' is not known"),
        (b"sku,country\nA-1,DE\n", "; charset=unicode_escape", "'unicode_escape' is not known"),
        ("sku,country\nA-1,Ö\n".encode(), "; charset=ascii", "The file is not in the encoding ascii"),
    ],
)
async def test_an_encoding_is_not_guessed(api: httpx.AsyncClient, content: bytes, charset: str, said: str) -> None:
    """Wrong letters would be the inputs of paid runs."""
    refused = await uploaded(api, content, SKUS, **{"Content-Type": f"text/csv{charset}"})
    assert (refused.status_code, said in refused.json()["detail"]) == (415, True), refused.text


async def test_an_empty_cell_is_an_absent_value(api: httpx.AsyncClient) -> None:
    content = "sku,limit,fast,weight,country\nA-1,,,,\nB-2,5,true,1.5,\nC-3,,FALSE,,DE\n"
    expected = {
        "A-1": {"sku": "A-1"},
        "B-2": {"sku": "B-2", "limit": 5, "fast": True, "weight": 1.5},
        "C-3": {"sku": "C-3", "fast": False, "country": "DE"},
    }
    assert await shipped(api, content, SKUS) == expected
    mapped: dict[str, object] = {"tool": "ship", "key": "id", "mapping": {"sku": "id", "limit": "most"}}
    assert await shipped(api, "id,most\nA-1,\nB-2,7", mapped) == {
        "A-1": {"sku": "A-1"},
        "B-2": {"sku": "B-2", "limit": 7},
    }


async def test_rows_of_json_that_have_no_argument_of_the_tool_are_refused(api: httpx.AsyncClient) -> None:
    """Further fields are fine: a dataset has more than a tool wants."""
    settings: dict[str, object] = {"tool": "double", "key": "id"}
    refused = await uploaded(api, '{"id": "a", "nmber": 1}\n', settings, **JSONL)
    assert (refused.status_code, "Did you mean 'number'?" in refused.text) == (422, True)
    mapped = settings | {"mapping": {"number": "n", "lable": "id"}}
    refused = await uploaded(api, '{"id": "a", "n": 1}\n', mapped, **JSONL)
    assert (refused.status_code, "Did you mean 'label'?" in refused.text) == (422, True)


async def test_a_column_may_name_the_items_only(api: httpx.AsyncClient) -> None:
    given = await shipped(api, "line;sku\nfirst;A-1\nsecond;B-2\n", {"tool": "ship", "key": "line"})
    assert given == {"first": {"sku": "A-1"}, "second": {"sku": "B-2"}}


@pytest.mark.parametrize(
    ("content", "settings", "said"),
    [
        (
            "sku,contry\nA-1,US\n",
            {"tool": "ship"},
            "'contry', which is not an argument of the tool. Did you mean 'country'?",
        ),
        ("sku;country\nA-1;US\n", {"tool": "ship", "delimiter": ","}, "'sku;country', which is not an argument"),
        ("a\n1\n", {"tool": "ship", "mapping": {"sky": "a"}}, "The mapping writes into 'sky'"),
        ("sku,limit\nA-1,3,4\n", {"tool": "ship"}, "has 3 values, but the first line 2 names (delimiter ',')"),
        ("sku,sku\nA-1,3\n", {"tool": "ship"}, "Two columns have the same name"),
        ("sku,\nA-1,3\n", {"tool": "ship"}, "a value in a column without a name"),
        ("seconds;colour\n0;red\n", {"tool": "outlast--sleeper"}, "'colour', which is not an argument"),
        (
            "a\n1\n",
            {"tool": "call-actor", "arguments": {"actor": "outlast/sleeper"}, "mapping": {"input.secnds": "a"}},
            "The mapping writes into 'input.secnds'",
        ),
        ("sku,limit\nA-1,\u0661\n", {"tool": "ship"}, "/limit"),  # a digit, but no number of JSON
        ("sku,weight\nA-1,nan\n", {"tool": "ship"}, "/weight"),
    ],
)
async def test_wrong_columns_are_refused_before_anything_is_started(
    api: httpx.AsyncClient, sandbox: Sandbox, content: str, settings: dict[str, object], said: str
) -> None:
    before = sandbox.counters["startsAccepted"]
    answer = await uploaded(api, content, settings, **CSV)
    assert answer.status_code == 422, answer.text
    assert said in answer.text
    assert "Nothing was started" in answer.json()["detail"]
    assert sandbox.counters["startsAccepted"] == before


DEEP = ".".join(["a"] * 3_001)


@pytest.mark.parametrize("settings", [{"mapping": {DEEP: "x"}}, {"mapping": {"number": DEEP}}, {"key": DEEP}])
async def test_a_path_of_thousands_of_parts_is_refused(api: httpx.AsyncClient, settings: dict[str, object]) -> None:
    answer = await api.post("/v1/batches", json={"tool": "double", "items": [{}], **settings})
    assert answer.status_code == 422, answer.text
    assert len(answer.text) < 5_000
    assert (await uploaded(api, '{"x": 1}', settings, **JSONL)).status_code == 422
    call = {"tool": "double", "items": [{"arguments": {}}], **settings}
    answer = await api.post("/v1/schedules", json={"id": "deep", "cron": ["0 0 29 2 *"], "batch": call})
    assert answer.status_code == 422, answer.text


async def test_a_path_of_many_short_parts_is_refused(api: httpx.AsyncClient) -> None:
    mapping = {"number": ".".join(["a"] * 51)}
    answer = await api.post("/v1/batches", json={"tool": "double", "items": [{}], "mapping": mapping})
    assert answer.status_code == 422
    assert "a path may have 50" in answer.text


async def test_too_many_items_are_refused_before_any_is_checked(
    temporal: Client, sandbox: Sandbox, tmp_path: Path
) -> None:
    """To check a hundred thousand items took 69 seconds; to count them takes one.

    This API has no such tool, which is found when the first item is checked.
    """
    settings = api_settings(sandbox, data_dir=tmp_path, limits=Limits(batch_items=3))
    rows = {"dataset": sandbox.new_dataset([{"number": number} for number in range(6)])}
    items = [{"arguments": {"number": 1}}] * 4
    async with serving_api(temporal, settings) as few:
        for answer in (
            await uploaded(few, 4 * '{"number": 1}\n\n', {}, **JSONL),
            await uploaded(few, "number\n" + 4 * '"1\n"\n', {}, **CSV),
            await few.post("/v1/batches", json={"tool": "double", "items": items}),
            await few.post("/v1/batches", json={"tool": "double", "rows": rows | {"offset": 1, "limit": 4}}),
            await few.post("/v1/batches", json={"tool": "double", "rows": rows | {"offset": 2}}),
            await few.post(
                "/v1/schedules",
                json={"id": "many", "cron": ["0 0 29 2 *"], "batch": {"tool": "double", "items": items}},
            ),
        ):
            assert (answer.status_code, answer.json()["detail"][:31]) == (413, "The batch has more than 3 items")
        for fit in (rows | {"offset": 3}, rows | {"limit": 3}):  # three rows: they are checked
            answer = await few.post("/v1/batches", json={"tool": "double", "rows": fit})
            assert answer.status_code == 404, answer.text


@pytest.mark.parametrize("number", ["12345678901234567890123", "NaN", "1e400"])
async def test_a_number_that_no_parser_keeps_is_refused_with_its_line(api: httpx.AsyncClient, number: str) -> None:
    answer = await uploaded(api, f'{{"number": 1}}\n{{"number": {number}}}\n', {}, **JSONL)
    assert answer.status_code == 422
    (violation,) = answer.json()["error"]["violations"]
    assert violation["path"] == "/2"
    assert "/number" in violation["message"]
    answer = await uploaded(api, f"number\n{number}\n", {}, **CSV)
    if number.isdigit():  # a cell is a text, which the tool reads exactly
        assert await results(api, answer) == {"2": 2 * int(number)}
    else:
        assert answer.status_code == 422, answer.text
