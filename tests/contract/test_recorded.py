"""Clients of the version before tool masks see no change: what it answered is there still, with the same value.

What was added since (tools, optional fields, events) is no change for them. What was changed on purpose stands in
`DELIBERATE`, with the reason. The mode `apify` came later: its older clients are those of the peer, which is asked anew
in `peer/`.
"""

import json
import re
from pathlib import Path

import httpx
import pytest

from tests.contract.recorded.exchange import Caller, differences
from tests.support.stacks.fixtures import service_fixture
from tests.support.stacks.service import Service

FOLDER = Path(__file__).parent / "recorded"
SETS = sorted(path.stem for path in FOLDER.glob("*.json"))
DELIBERATE = {
    r"/capabilities/resources/subscribe was false, is true": "tasks are resources that may be subscribed to",
    r"/result/instructions was": "the instructions go on about stored outputs",
    r"/(search-actors|search-apify-docs|get-actor-run-list)/output_?[sS]chema/required/\d was": "the same names",
    r"/items/description was": "an answer's rows may be the first ones of a stored output",
    r"get-key-value-store-record/description was": "long texts are stored instead of read in parts",
    r"get-key-value-store-record/\w+/properties/(value|offset|limit)": "long texts are stored instead of read in parts",
    r"an Actor directly: .*/text was .*Rows 0 to 0 of 1 in dataset": "a single row is called so",
    r"rows: .* was \"Rows 0 to 0 of 2": "a single row is called so",
    r"rest: the run: .*/text was": "a run's answer shows its rows when they are few",
    r"prompts/run-actor/description was": "the prompt is described in plainer words",
    r"tools( of the UI mode)?: .*/tools/[\w-]+/description was": "tools are described in plainer words",
    r"/answer-task/.*description was": "texts name no tool that a connection may lack",
    r"/fetch-actor-details-internal/description was": "texts name no tool that a connection may lack",
    r"tools of the UI mode: .*/description was \"This tool calls the Actor": "a direct tool says what it does there",
    r"/(output_schema|outputSchema)/(.*/)?description was": "output schemas are described in plainer words",
    r"/(input_schema|inputSchema)/(.*/)?description was": "input schemas are described in plainer words",
    r"rest: (bad arguments|unknown field): .*(Unknown field|violations/\d/(path|message) was)": (
        "unknown fields are found first, and told with the fields that there are"
    ),
    r"(no such|unknown) tool: .*(hint|text) was .*Did you mean call-actor": "there are more tools of a similar name",
    r"rest: .*/task/(finished_at|expires_at) was null": "the answer to a call has the end of its task, as GET has it",
    r"unknown tool: /body/error/message was .* is .*Did you mean call-actor": "MCP errors name similar tools",
    r"/(hint|text) was .*Mend every violation": "a hint says it in plainer words",
}
"""Differences (regular expressions over `set: exchange: difference`) that other issues made, and why."""


masking = service_fixture(scope="module", settings={"OUTLAST_TOOL_MASKING": "true"})


@pytest.mark.parametrize("recorded", SETS)
def test_an_old_client_sees_no_change(service: Service, recorded: str) -> None:
    assert changes(service, recorded) == []


@pytest.mark.parametrize("recorded", SETS)
def test_an_old_client_sees_no_change_where_masks_are_switched_on(masking: Service, recorded: str) -> None:
    assert changes(masking, recorded) == []


def test_a_change_would_be_seen() -> None:
    before = {"a": 1, "tools": [{"name": "x", "required": ["p"]}], "words": ["u", "v"]}
    assert differences(before, {**before, "b": 2, "tools": [*before["tools"], {"name": "y"}]}) == []  # type: ignore[misc]
    assert differences(before, {**before, "words": ["v", "w", "u"]}) == []
    assert differences(before, {**before, "a": 2}) == ["/a was 1, is 2"]
    assert differences(before, {**before, "words": ["u"]}) == ["/words has no 'v' any more"]
    assert differences(before, {**before, "tools": [{"name": "x", "required": ["p", "q"]}]}) == [
        "/tools/x/required had 1 entries, has 2"
    ]
    assert differences(before, {"tools": before["tools"], "words": before["words"]}) == ["/a is gone"]


def changes(service: Service, recorded: str) -> list[str]:
    """Every difference that nobody meant."""
    found: list[str] = []
    with httpx.Client(base_url=service.api_url, trust_env=False, timeout=90) as http:
        caller = Caller(http)
        for before in json.loads((FOLDER / f"{recorded}.json").read_text()):
            now = caller.ask({key: before[key] for key in ("name", "request", "save") if key in before})
            for part in ("status", "content_type", "body"):
                lines = differences(before[part], now[part], f"/{part}")
                found += [f"{recorded}: {before['name']}: {line}" for line in lines]
    return [line for line in found if not any(re.search(pattern, line) for pattern in DELIBERATE)]
