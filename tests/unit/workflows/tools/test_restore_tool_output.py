"""What `restore-tool-output` asks the store for, and what it says about the part that it gets."""

import base64
from types import SimpleNamespace
from typing import Any, cast

import pytest

from outlast.activities.contracts import Caller
from outlast.activities.outputs.contracts import RestoredOutput, RestoreOutputInput
from outlast.workflows.contracts.tool_calls import EmbeddedResource, TextContent, ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.tools.common.restore_tool_output import RestoreArguments, restore_tool_output

ANN = Caller(id="key:ann")


async def restored(arguments: dict[str, Any], **part: Any) -> tuple[RestoreOutputInput, ToolResult]:
    """The request to the store for these arguments, and the answer of the tool to what the store gives."""
    requests: list[RestoreOutputInput] = []
    given = {"kind": "rows", "content_type": "application/x-ndjson", "size_bytes": 5_000, "offset": 0, **part}

    async def restore(request: RestoreOutputInput) -> RestoredOutput:
        requests.append(request)
        return RestoredOutput.model_validate({"locator": request.locator, **given})

    context = SimpleNamespace(call=SimpleNamespace(caller=ANN), outputs=SimpleNamespace(restore=restore))
    wanted = RestoreArguments.model_validate({"locator": "out-1", **arguments})
    result = await restore_tool_output(cast(HandlerContext, context), wanted)
    [request] = requests
    return request, result


def text_of(result: ToolResult) -> str:
    assert isinstance(result.content[0], TextContent)
    return result.content[0].text


async def test_the_store_gets_every_argument() -> None:
    arguments = {"offset": 7, "limit": 3, "fields": "url,crawl.status", "filter": "a", "query": "b", "maxBytes": 300}
    request, _ = await restored(arguments, items=())
    assert request == RestoreOutputInput(
        caller=ANN,
        locator="out-1",
        offset=7,
        limit=3,
        fields=("url", "crawl.status"),
        filter="a",
        query="b",
        max_bytes=300,
    )


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ({"items": ({"a": 1},), "offset": 7, "next_offset": 8}, ["1 of 10 rows of out-1", "from row 7:", "offset 8."]),
        ({"items": ({"a": 1},), "offset": 9}, ["from row 9:", "Nothing is left behind this."]),
        ({"items": (), "offset": 4}, ["No row matches from row 4 on"]),
        # A row that alone is too large is the one before the next offset; at the end it is the last one.
        ({"items": (), "oversized_row_bytes": 9_000, "next_offset": 4}, ["Row 3 of out-1", "offset 4."]),
        ({"items": (), "oversized_row_bytes": 9_000, "offset": 9}, ["Row 9 of out-1", "Nothing is left"]),
        ({"kind": "text", "text": "words", "offset": 20, "next_offset": 25}, ["byte 20 on:", "words", "offset 25."]),
        ({"kind": "json", "value": {"a": 1}}, ['{"a":1}']),
    ],
)
async def test_the_answer_tells_where_its_part_is_and_how_to_continue(part: dict[str, Any], words: list[str]) -> None:
    _, result = await restored({}, count=10, **part)
    assert [word for word in words if word not in text_of(result)] == []
    assert ("There is more" in text_of(result)) == ("next_offset" in part)
    structured = result.structured
    assert isinstance(structured, dict)
    assert (structured["offset"], structured.get("nextOffset")) == (part.get("offset", 0), part.get("next_offset"))


async def test_bytes_are_in_a_block_beside_the_answer() -> None:
    blob = base64.b64encode(bytes(5)).decode()
    _, result = await restored({}, kind="binary", content_type="image/png", blob_base64=blob, next_offset=5)
    [_, block] = result.content
    assert isinstance(block, EmbeddedResource)
    resource = block.resource.model_dump(by_alias=True)
    assert (resource["uri"], resource["mimeType"], resource["blob"]) == (
        "outlast://outputs/out-1",
        "image/png",
        blob,
    )
