"""Summaries: short, deterministic, and enough to know what to ask for."""

import asyncio
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlast.activities.outputs.contracts import MAX_SUMMARY_CHARS, OutputKind
from outlast.activities.outputs.output_format import OutputManifest, stored_output
from tests.support.calls.stored_outputs import objects_in_memory, stored


def lines(*rows: object) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


async def manifest_of(content: bytes, kind: OutputKind, content_type: str) -> OutputManifest:
    return await stored(objects_in_memory(), content, kind=kind, content_type=content_type)


async def test_rows_are_told_by_their_fields() -> None:
    rows = [{"id": number, "price": None if number % 4 else 1.5, "tags": []} for number in range(1_000)]
    manifest = await manifest_of(lines(*rows, {"rare": True}), "rows", "application/x-ndjson")
    assert manifest.count == 1_001
    assert [(field.name, field.types) for field in manifest.fields][:3] == [
        ("id", ("integer",)),
        ("price", ("null", "number")),
        ("tags", ("array",)),
    ]
    rates = {field.name: field.fill_rate for field in manifest.fields}
    assert rates["id"] == pytest.approx(1, abs=0.02)
    assert rates["price"] == pytest.approx(0.25, abs=0.1)
    assert manifest.summary.startswith("1,001 rows of JSON, ")
    assert "price null|number" in manifest.summary
    assert "JMESPath" in manifest.summary


async def test_rows_all_over_the_output_are_sampled() -> None:
    rows = [{"early": 1}] * 500 + [{"late": 1}] * 500
    manifest = await manifest_of(lines(*rows), "rows", "application/x-ndjson")
    assert [(field.name, field.fill_rate) for field in manifest.fields] == [("early", 0.5), ("late", 0.5)]


@pytest.mark.parametrize("rows", [[], [1, "two", None], [{"x" * 300: 1}], [[{}]]])
async def test_rows_without_nameable_fields_are_counted(rows: list[object]) -> None:
    manifest = await manifest_of(lines(*rows), "rows", "application/x-ndjson")
    assert manifest.count == len(rows)
    assert manifest.fields == ()
    assert manifest.summary.startswith(f"{len(rows)} row")


async def test_a_giant_row_is_not_sampled() -> None:
    manifest = await manifest_of(lines({"a": 1}, {"b": "x" * 2_000_000}, {"a": 2}), "rows", "application/x-ndjson")
    assert [field.name for field in manifest.fields] == ["a"]


async def test_json_is_told_by_its_shape() -> None:
    value = [{"name": "a", "sizes": [1, 2], "more": {"x": None}}] * 3
    manifest = await manifest_of(json.dumps(value).encode(), "json", "application/json")
    assert manifest.count == 3
    assert "A JSON list of 3 elements" in manifest.summary
    assert "[3 of {name: string, sizes: [2 of integer], more: {x: null}}]" in manifest.summary


async def test_what_calls_itself_json_and_is_none_is_text() -> None:
    manifest = await manifest_of(b"<oops>", "json", "application/json")
    assert manifest.kind == "text"
    assert "It begins: <oops>" in manifest.summary


async def test_html_is_told_by_title_and_headings() -> None:
    page = "<html><head><title>The\n title</title></head><body><h1>One</h1><p>secret</p><h2>Two <b>b</b></h2>"
    manifest = await manifest_of(page.encode(), "text", "text/html; charset=utf-8")
    assert "Title: The title." in manifest.summary
    assert "Headings: One; Two b." in manifest.summary
    assert "secret" not in manifest.summary


async def test_text_is_told_by_its_beginning_in_its_own_charset() -> None:
    manifest = await manifest_of("Grüße\nan alle\n".encode("latin-1"), "text", "text/plain; charset=iso-8859-1")
    assert manifest.summary.endswith("It begins: Grüße an alle")
    assert "2 lines" in manifest.summary


async def test_binary_is_told_by_type_and_size() -> None:
    manifest = await manifest_of(bytes(5_000), "binary", "image/png")
    assert manifest.summary.startswith("Binary, image/png, 5.0 kB.")


@given(
    content=st.binary(max_size=2_000) | st.text(max_size=3_000).map(lambda text: (text * 20).encode(errors="replace")),
    kind=st.sampled_from(["json", "text", "binary"]),
    content_type=st.sampled_from(
        ["text/html", "application/json", "text/plain; charset=utf-16", "text/plain; charset=hex", "x" * 3_000]
    ),
)
@settings(max_examples=100)
def test_no_summary_is_too_long(content: bytes, kind: OutputKind, content_type: str) -> None:
    manifest = asyncio.run(manifest_of(content, kind, content_type))
    assert len(stored_output(manifest).summary) <= MAX_SUMMARY_CHARS


@pytest.mark.parametrize("name", ["f", "ü" * 70])
async def test_the_summary_of_rows_with_very_many_fields_is_short(name: str) -> None:
    rows = [{f"{name}{number}": number for number in range(2_000)}] * 5
    manifest = await manifest_of(lines(*rows), "rows", "application/x-ndjson")
    assert len(manifest.summary) <= MAX_SUMMARY_CHARS
    assert len(manifest.fields) <= 40
