"""Restoring parts of an output: within the limit, and with the right place to go on from."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlast.activities.failures.exceptions import OutputError
from outlast.activities.outputs import selection
from outlast.activities.outputs.contracts import OutputKind, RestoredOutput, RestoreOutputInput
from outlast.activities.outputs.output_format import Sizes
from outlast.activities.outputs.reader import OutputReader, open_output
from outlast.activities.outputs.selection import select
from outlast.activities.unicode_text import valid_text
from tests.support.calls.stored_outputs import CALLER, objects_in_memory, stored

ROWS: list[dict[str, Any]] = [
    {
        "id": number,
        "name": f"row {number}",
        "crawl": {"status": 200 if number % 3 else 404},
        "text": "x" * (number % 90),
    }
    for number in range(500)
]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Expressions are evaluated behind all other work: on a busy machine that may take all the time of a scan."""
    monkeypatch.setattr(selection, "SCAN_SECONDS", 3_600.0)


async def reader_of(content: bytes, kind: OutputKind = "rows", content_type: str = "text/plain") -> OutputReader:
    objects = objects_in_memory()
    manifest = await stored(objects, content, kind=kind, content_type=content_type)
    return await open_output(objects, manifest.locator, CALLER.id)


async def reader_of_rows(rows: Sequence[object] = ROWS) -> OutputReader:
    return await reader_of(b"".join(json.dumps(row).encode() + b"\n" for row in rows))


async def answer(reader: OutputReader, **order: Any) -> RestoredOutput:
    wanted = RestoreOutputInput(caller=CALLER, locator=reader.manifest.locator, **order)
    found = await select(reader, wanted)
    body = found.items if found.items is not None else found.value if found.value is not None else found.text
    assert len(orjson.dumps(body)) <= max(wanted.max_bytes, 32) * 2
    return found


async def all_answers(reader: OutputReader, **order: Any) -> AsyncIterator[RestoredOutput]:
    offset: int | None = order.pop("offset", 0)
    while offset is not None:
        found = await answer(reader, offset=offset, **order)
        assert found.next_offset is None or found.next_offset > offset
        yield found
        offset = found.next_offset


async def test_rows_by_offset_and_limit() -> None:
    found = await answer(await reader_of_rows(), offset=10, limit=3)
    assert found.items == tuple(ROWS[10:13])
    assert (found.offset, found.next_offset, found.count, found.matched) == (10, 13, 500, None)


async def test_rows_behind_the_end_are_none() -> None:
    found = await answer(await reader_of_rows(), offset=10_000)
    assert (found.items, found.next_offset) == ((), None)


@given(
    max_bytes=st.integers(60, 5_000),
    limit=st.none() | st.integers(1, 300),
    offset=st.integers(0, 500),
    expression=st.none() | st.just("crawl.status == `404`"),
)
@settings(max_examples=12)
def test_going_on_from_next_offset_gives_every_row_once(
    max_bytes: int, limit: int | None, offset: int, expression: str | None
) -> None:
    async def scenario() -> None:
        reader = await reader_of_rows()
        order = {"offset": offset, "limit": limit, "max_bytes": max(max_bytes, 600 if expression else 0)}
        found = [page async for page in all_answers(reader, filter=expression, fields=("id",), **order)]
        ids = [item["id"] for page in found for item in page.items or () if isinstance(item, dict)]
        wanted = [row["id"] for row in ROWS[offset:] if not expression or row["crawl"]["status"] == 404]
        assert ids == wanted
        assert all(len(page.items or ()) <= (limit or 500) for page in found)
        assert all((page.matched == len(page.items or ())) if expression else page.matched is None for page in found)

    asyncio.run(scenario())


async def test_fields_are_dot_paths() -> None:
    found = await answer(await reader_of_rows(), limit=1, fields=("name", "crawl.status", "missing"))
    assert found.items == ({"name": "row 0", "crawl.status": 404},)


async def test_a_filter_gives_the_rows_that_match_and_their_fields() -> None:
    found = await answer(await reader_of_rows(), filter="crawl.status == `404` && id > `400`", fields=("id",), limit=2)
    assert found.items == ({"id": 402}, {"id": 405})
    assert (found.matched, found.next_offset) == (2, 406)


async def test_a_scan_whose_time_is_up_says_where_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "SCAN_SECONDS", 0.0)
    reader = await reader_of_rows()
    answers = [found async for found in all_answers(reader, offset=480, filter="id >= `498`", query="id")]
    assert len(answers) > 1
    assert answers[0].items == ()
    assert [item for found in answers for item in found.items or ()] == [498, 499]


async def test_a_filter_that_matches_nothing_comes_to_the_end() -> None:
    found = await answer(await reader_of_rows(), filter="id < `0`")
    assert (found.items, found.matched, found.next_offset) == ((), 0, None)


async def test_rows_that_an_expression_does_not_fit_do_not_match() -> None:
    rows = [{"name": "ab"}, {}, {"name": 5}, {"name": "abc"}]
    found = await answer(await reader_of_rows(rows), filter="contains(name, 'b')")
    assert found.items == (rows[0], rows[3])


async def test_zero_is_true_as_jmespath_has_it() -> None:
    found = await answer(await reader_of_rows([{"n": 0}, {"n": ""}, {"n": []}, {"n": False}, {}]), filter="n")
    assert found.items == ({"n": 0},)


async def test_a_query_is_applied_to_each_row() -> None:
    found = await answer(await reader_of_rows(), query="{n: id, s: crawl.status}", filter="id >= `498`")
    assert found.items == ({"n": 498, "s": 404}, {"n": 499, "s": 200})
    assert (found.matched, found.next_offset) == (2, None)


async def test_a_query_that_leads_nowhere_in_a_row_gives_nothing_for_it() -> None:
    found = await answer(await reader_of_rows([{"a": 1}, {}, {"a": 3}]), query="a")
    assert found.items == (1, 3)


@pytest.mark.parametrize("order", [{}, {"filter": "big"}, {"query": "big"}])
async def test_a_row_that_would_fit_in_no_answer_is_passed_over_and_its_size_told(order: dict[str, Any]) -> None:
    reader = await reader_of_rows([{"id": 1, "big": "x" * 5_000}, {"id": 2, "big": "y"}])
    found = await answer(reader, max_bytes=1_000, **order)
    assert found.items == ()
    assert found.oversized_row_bytes is not None
    assert found.oversized_row_bytes > 5_000
    assert found.next_offset == 1
    rest = await answer(reader, max_bytes=1_000, offset=1, **order)
    assert rest.items == (("y",) if "query" in order else ({"id": 2, "big": "y"},))


async def test_fields_make_an_oversized_row_fit() -> None:
    reader = await reader_of_rows([{"id": 1, "big": "x" * 500_000}])
    assert (await answer(reader, fields=("id",), max_bytes=100)).items == ({"id": 1},)


async def test_rows_that_no_program_could_carry_are_given_as_their_text() -> None:
    deep = b"[" * 500 + b"]" * 500
    reader = await reader_of(b'{"s":"\\ud800"}\n' + deep + b"\nNaN\n")
    assert (await answer(reader)).items == ('{"s":"\\ud800"}', deep.decode(), "NaN")


async def test_a_result_that_no_program_could_carry_is_given_as_its_text() -> None:
    deep = "[" * 150 + "]" * 150
    reader = await reader_of(f'{{"deep":{deep}}}\n'.encode())
    assert (await answer(reader, query="deep")).items == (deep,)


async def test_a_json_value_is_given_whole_when_it_fits() -> None:
    reader = await reader_of(b'{"a": [1, 2]}', "json", "application/json")
    found = await answer(reader)
    assert (found.value, found.next_offset) == ({"a": [1, 2]}, None)
    ranged = await answer(reader, offset=6, limit=6)
    assert (ranged.text, ranged.next_offset) == ("[1, 2]", 12)


async def test_a_query_on_a_json_value() -> None:
    value = {"people": [{"age": age} for age in range(100)]}
    reader = await reader_of(json.dumps(value).encode(), "json", "application/json")
    assert (await answer(reader, query="length(people)")).value == 100
    pages = [page async for page in all_answers(reader, query="people[].age", max_bytes=40)]
    assert len(pages) > 3
    assert [age for page in pages for age in page.value or ()] == list(range(100))  # type: ignore[union-attr]
    limited = await answer(reader, query="people[].age", offset=5, limit=2)
    assert (limited.value, limited.next_offset) == ([5, 6], 7)


async def test_a_result_that_is_too_large_and_no_list_is_refused_with_its_size() -> None:
    reader = await reader_of(json.dumps({"a": {"b": "x" * 5_000}}).encode(), "json", "application/json")
    with pytest.raises(OutputError, match="5008 bytes"):
        await answer(reader, query="a", max_bytes=1_000)


@given(
    text=st.text(max_size=400), max_bytes=st.integers(1, 40), charset=st.sampled_from(["utf-8", "utf-16", "utf-16-le"])
)
@settings(max_examples=60)
def test_ranges_of_text_never_cut_a_character(text: str, max_bytes: int, charset: str) -> None:
    async def scenario() -> None:
        reader = await reader_of(text.encode(charset), "text", f"text/plain; charset={charset}")
        answers = [page.text or "" async for page in all_answers(reader, max_bytes=max_bytes)]
        assert "".join(answers) == valid_text(text)

    asyncio.run(scenario())


@given(content=st.binary(max_size=600))
@settings(max_examples=30)
def test_text_that_is_none_comes_to_its_end(content: bytes) -> None:
    async def scenario() -> None:
        reader = await reader_of(content, "text", "text/plain")
        text = "".join([page.text or "" async for page in all_answers(reader, max_bytes=7)])
        assert text == content.decode(errors="replace")

    asyncio.run(scenario())


async def test_ranges_of_binary_are_base64() -> None:
    content = bytes(range(256)) * 10
    reader = await reader_of(content, "binary", "image/png")
    pages = [page async for page in all_answers(reader, max_bytes=100)]
    assert all(len(page.blob_base64 or "") <= 100 for page in pages)
    assert b"".join(base64.b64decode(page.blob_base64 or "") for page in pages) == content


@pytest.mark.parametrize(
    ("kind", "order"),
    [
        ("rows", {"query": "a", "fields": ("a",)}),
        ("text", {"query": "a"}),
        ("text", {"fields": ("a",)}),
        ("json", {"filter": "a"}),
        ("binary", {"query": "a"}),
    ],
)
async def test_a_selection_that_does_not_fit_the_kind_is_refused(kind: OutputKind, order: dict[str, Any]) -> None:
    reader = await reader_of(b"{}\n", kind, "application/json")
    with pytest.raises(OutputError) as refused:
        await answer(reader, **order)
    assert refused.value.reason == "bad_selection"


async def test_rows_that_fill_an_answer_to_the_byte_fit() -> None:
    reader = await reader_of_rows([{"a": "x" * 100}, {"a": "y" * 100}, {"a": "z" * 100}])
    line_bytes = len(orjson.dumps({"a": "x" * 100})) + 1
    assert len((await answer(reader, max_bytes=3 * line_bytes)).items or ()) == 3
    found = await answer(reader, max_bytes=3 * line_bytes - 1)
    assert (len(found.items or ()), found.next_offset, found.oversized_row_bytes) == (2, 2, None)


async def test_an_expression_that_fails_on_every_row_that_was_asked_for_is_refused() -> None:
    with pytest.raises(OutputError, match="fails on every row"):
        await answer(await reader_of_rows(), offset=490, filter="length(id) > `0`")


async def test_a_json_value_from_an_offset_on_is_text() -> None:
    reader = await reader_of(b'{"a": 1}', kind="json", content_type="application/json")
    assert (await answer(reader)).value == {"a": 1}
    assert (await answer(reader, offset=5)).text == " 1}"


async def test_a_range_of_binary_has_as_many_bytes_as_were_asked_for() -> None:
    reader = await reader_of(bytes(range(256)), kind="binary", content_type="application/octet-stream")
    found = await answer(reader, offset=10, limit=5)
    assert (base64.b64decode(found.blob_base64 or ""), found.next_offset) == (bytes(range(10, 15)), 15)


@pytest.mark.parametrize(
    ("order", "ids"),
    [
        ({"where": "id >= `497`"}, [497, 498, 499]),
        ({"where": "id >= `123`", "limit": 3}, [123, 124, 125]),
        ({"where": "crawl.status == `404`", "offset": 400, "limit": 2}, [402, 405]),
        ({"query": "id", "offset": 498}, [498, 499]),
    ],
)
async def test_a_stream_of_matches_has_each_once_and_no_more_than_the_limit(
    monkeypatch: pytest.MonkeyPatch, order: dict[str, Any], ids: list[int]
) -> None:
    monkeypatch.setattr(selection, "_BATCHES_PER_PROCESS", 25)  # of 500, so that processes follow each other
    pieces = [piece async for piece in selection.matches_stream(await reader_of_rows(), **order)]
    found = [json.loads(line) for line in b"".join(pieces).splitlines()]
    assert [row if isinstance(row, int) else row["id"] for row in found] == ids


@pytest.mark.parametrize("order", [{"where": "id > `1`"}, {"query": "id", "offset": 2}], ids=["rows", "results"])
@pytest.mark.parametrize("batches_per_process", [1, 32])
async def test_a_stream_of_many_small_rows_has_each_once_and_no_more_than_the_limit(
    monkeypatch: pytest.MonkeyPatch, order: dict[str, Any], batches_per_process: int
) -> None:
    """Many rows come in one batch, so that the limit, and the end of a batch, fall into it."""
    monkeypatch.setattr(selection, "_BATCHES_PER_PROCESS", batches_per_process)
    content = b"".join(json.dumps({"id": number, "text": "x" * 50}).encode() + b"\n" for number in range(9_000))
    objects = objects_in_memory()
    manifest = await stored(objects, content, sizes=Sizes())
    reader = await open_output(objects, manifest.locator, CALLER.id)
    assert max([len(batch) async for batch in reader.row_batches(0, None)]) > 1_000
    for limit in (3, 8_997, None):
        pieces = [piece async for piece in selection.matches_stream(reader, limit=limit, **order)]
        found = [json.loads(line) for line in b"".join(pieces).splitlines()]
        ids = [row if isinstance(row, int) else row["id"] for row in found]
        assert ids == list(range(2, 9_000))[:limit]


async def reader_of_one_batch(rows: Sequence[object]) -> OutputReader:
    objects = objects_in_memory()
    content = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    manifest = await stored(objects, content, sizes=Sizes())
    reader = await open_output(objects, manifest.locator, CALLER.id)
    assert [len(batch) async for batch in reader.row_batches(0, None)] == [len(rows)]
    return reader


async def streamed(reader: OutputReader, **order: Any) -> list[Any]:
    pieces = [piece async for piece in selection.matches_stream(reader, **order)]
    return [json.loads(line) for line in b"".join(pieces).splitlines()]


async def test_after_a_match_in_the_middle_of_many_rows_the_next_answer_begins_with_the_row_behind_it() -> None:
    reader = await reader_of_one_batch(ROWS)
    found = await answer(reader, offset=100, filter="crawl.status == `404`", fields=("id",), limit=2)
    assert (found.items, found.next_offset) == (({"id": 102}, {"id": 105}), 106)
    rest = await answer(reader, offset=106, filter="crawl.status == `404`", fields=("id",), limit=1)
    assert rest.items == ({"id": 108},)


async def test_results_that_fill_an_answer_leave_the_others_for_the_next_one() -> None:
    texts = [f"{number} " + 297 * "x" for number in range(10)]
    reader = await reader_of_one_batch([{"text": text} for text in texts])
    answers = [found async for found in all_answers(reader, query="text", max_bytes=1_000)]
    assert [item for found in answers for item in found.items or ()] == texts
    assert [found.next_offset for found in answers] == [3, 6, 9, None]


async def test_a_text_is_no_longer_than_an_answer_may_be_however_much_is_asked_for() -> None:
    reader = await reader_of(b"x" * 1_000, kind="text")
    found = await answer(reader, limit=500, max_bytes=300)
    assert (len(found.text or ""), found.next_offset) == (300, 300)


async def test_a_json_value_that_fills_an_answer_is_whole_and_a_range_of_it_is_text() -> None:
    content = b'{"a": "xxxx"}'
    reader = await reader_of(content, kind="json", content_type="application/json")
    assert (await answer(reader, max_bytes=len(content))).value == {"a": "xxxx"}
    for found in (await answer(reader, max_bytes=len(content) - 1), await answer(reader, limit=len(content) - 1)):
        assert (found.text, found.value, found.next_offset) == (content[:-1].decode(), None, len(content) - 1)


async def test_a_stream_whose_results_reach_the_limit_of_a_batch_goes_on_with_the_next_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(selection, "_RESULT_BYTES", 500)
    objects = objects_in_memory()
    content = b"".join(b'{"text":"%d %s"}\n' % (number, 300 * b"x") for number in range(12))
    manifest = await stored(objects, content, sizes=Sizes(frame=1_500, part=1_500))
    reader = await open_output(objects, manifest.locator, CALLER.id)
    assert [len(batch) async for batch in reader.row_batches(0, None)] == [5, 5, 2]
    for order in ({}, {"offset": 2, "limit": 7}):
        first, last = order.get("offset", 0), order.get("limit", 12) + order.get("offset", 0)
        found = await streamed(reader, query="text", **order)
        assert [text.split()[0] for text in found] == [str(number) for number in range(first, last)]


async def test_a_stream_refuses_a_result_that_is_too_large_and_fields_beside_a_query(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(selection, "_RESULT_BYTES", 1_000)
    reader = await reader_of_one_batch([{"text": "short"}, {"text": 1_500 * "x"}])
    with pytest.raises(OutputError, match=r"result for one row has 150\d bytes"):
        await streamed(reader, query="text")
    assert await streamed(reader, query="text", limit=1) == ["short"]
    with pytest.raises(OutputError, match="exclude each other"):
        await streamed(reader, query="text", fields=("text",))


async def test_a_stream_of_rows_has_those_from_an_offset_on_up_to_a_limit_and_their_fields() -> None:
    reader = await reader_of_rows()
    for order, rows in (
        ({"offset": 490}, ROWS[490:]),
        ({"offset": 3, "limit": 150}, ROWS[3:153]),
        ({"limit": 2}, ROWS[:2]),
        ({"offset": 499, "limit": 5}, ROWS[499:]),
        ({"offset": 500}, []),
    ):
        for fields in ((), ("id", "crawl.status")):
            pieces = [piece async for piece in selection.rows_stream(reader, **order, fields=fields)]
            found = [json.loads(line) for line in b"".join(pieces).splitlines()]
            assert found == (
                [{"id": row["id"], "crawl.status": row["crawl"]["status"]} for row in rows] if fields else rows
            )
