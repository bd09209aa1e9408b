"""What a call answers for each order of its phases, and for everything that its client may do."""

from typing import Any

import httpx
import pytest

from tests.support.calls.questions import call, result, said, taken, waiting
from tests.support.calls.tasks import started
from tests.support.http.mcp_wire import LEGACY, Wire, text_of

SERVER_FIRST = ("server_client", "server_client_server", "plain_merge")
CLIENT_NEEDED = ("hand_off", "client_server", "client_only")
OUTCOMES = ("decline", "cancel", "error", "time-out")
REASONS = {"decline": "declined", "cancel": "cancelled", "error": "error", "time-out": "timeout"}
WORDS = {
    "decline": "The client declined 'look' without an answer. It said: \"not now\".",
    "cancel": "The client closed 'look' without an answer. It said: \"not now\".",
    "error": "The client failed in 'look'. It said: \"not now\".",
    "time-out": "Nobody answered 'look' within 1 second.",
}
STANDS = "The result above is complete and stands: do not repeat the call because of this."


def each_once(tools: tuple[str, ...]) -> list[Any]:
    """Every tool with every outcome; a usual run has each outcome, and each tool."""
    pairs = [(tool, client) for tool in tools for client in OUTCOMES]
    usual = {(tools[number % len(tools)], client) for number, client in enumerate(OUTCOMES)}
    return [pytest.param(*pair, marks=() if pair in usual else pytest.mark.thorough) for pair in pairs]


BOUGHT = {"item": "tea", "price": 3, "padding": "", "seen": False}


async def outcome(api: httpx.AsyncClient, tool: str, client: str) -> dict[str, Any]:
    """The result of a call whose client accepts, declines, cancels, fails or does nothing."""
    if client == "time-out":
        return await result(api, await started(api, call(f"{tool}_quick")))
    task = await waiting(api, call(tool))
    if client == "accept":
        await taken(api, task, {"seen": True})
    else:
        await taken(api, task, action=client, message="not now")
    return await result(api, task["id"])


@pytest.mark.parametrize(("tool", "client"), each_once(SERVER_FIRST))
async def test_what_the_server_did_stands_when_the_client_gives_no_answer(
    api: httpx.AsyncClient, tool: str, client: str
) -> None:
    done = await outcome(api, tool, client)
    assert (done["is_error"], done.get("error"), done["structured"]) == (False, None, BOUGHT)
    bought, note = said(done).split("\n")
    assert bought == "Bought tea"
    assert note == f"{WORDS[client]} {STANDS}"
    by = None if client == "time-out" else "key:ann"
    record = {"phase": "look", "answeredBy": by, "unanswered": REASONS[client], "note": note}
    assert done["meta"]["outlast/client"] == record


@pytest.mark.parametrize(("tool", "client"), each_once(CLIENT_NEEDED))
async def test_a_call_that_needs_its_client_fails_without_an_answer(
    api: httpx.AsyncClient, tool: str, client: str
) -> None:
    error = (await outcome(api, tool, client))["error"]
    assert error["message"].startswith(WORDS[client])
    category = {"time-out": "timeout", "error": "unknown"}.get(client, "permission")
    assert (error["category"], error["retryable"]) == (category, client == "time-out")


@pytest.mark.parametrize(
    ("tool", "structured"),
    [
        ("server_client", BOUGHT),
        ("server_client_server", {**BOUGHT, "seen": True}),
        ("plain_merge", {**BOUGHT, "seen": True}),
        ("hand_off", {"item": "tea", "price": 3, "seen": True}),
        ("client_server", {"item": "tea", "price": 3, "seen": True}),
        ("client_only", {"seen": True, "remark": None}),
    ],
)
async def test_an_accepted_phase_is_part_of_the_answer(
    api: httpx.AsyncClient, tool: str, structured: dict[str, Any]
) -> None:
    done = await outcome(api, tool, "accept")
    assert (done["is_error"], done["structured"]) == (False, structured)
    record = done["meta"]["outlast/client"]
    assert record["answeredBy"] == "key:ann"
    assert ("answer" in record) is (tool == "server_client")


@pytest.mark.parametrize(
    ("tool", "structured"),
    [
        ("server_client_default", BOUGHT),
        ("server_client_server_default", BOUGHT),
        ("plain_merge_default", BOUGHT),
        ("hand_off_default", {"item": "tea", "price": 3, "seen": False}),
        ("client_server_default", {"item": "tea", "price": 3, "seen": False}),
        ("client_only_default", {"seen": False, "remark": "by default"}),
    ],
)
async def test_a_default_stands_for_an_answer_that_does_not_come(
    api: httpx.AsyncClient, tool: str, structured: dict[str, Any]
) -> None:
    done = await result(api, await started(api, call(tool)))
    assert (done["is_error"], done["structured"]) == (False, structured)
    assert done["meta"]["outlast/client"]["isDefault"] is True
    assert "The client answered" not in said(done)


async def test_a_server_that_fails_asks_nobody(api: httpx.AsyncClient) -> None:
    failed = await result(api, await started(api, call("sold_out")))
    assert failed["error"]["message"] == "There is no tea."


@pytest.mark.parametrize(
    ("tool", "remark", "reason"),
    [
        ("plain_merge", "refuse", "The shop has closed."),
        ("bad_merge", "refuse", "The shop has closed."),
        ("plain_merge", "break", "The tool failed: its code raised an error."),
        ("bad_merge", "break", "the tool has a defect."),
        ("bad_merge", "lie", "the tool has a defect."),
    ],
)
async def test_an_answer_that_cannot_be_merged_stands_beside_the_result(
    api: httpx.AsyncClient, tool: str, remark: str, reason: str
) -> None:
    task = await waiting(api, call(tool))
    await taken(api, task, {"seen": True, "remark": remark})
    done = await result(api, task["id"])
    assert (done["is_error"], done["structured"]) == (False, BOUGHT)
    bought, answer, note = said(done).split("\n")
    assert (bought, answer.startswith('The client answered: {"seen": true')) == ("Bought tea", True)
    assert note.startswith(f"The client's answer could not be merged into the result: {reason}")
    assert "hunter2" not in str(done)


@pytest.mark.parametrize(("tool", "size"), [("bad_message", 0), ("server_client", 300_000)])
async def test_an_answer_that_cannot_be_handed_over_stands(api: httpx.AsyncClient, tool: str, size: int) -> None:
    done = await result(api, await started(api, call(tool, bytes=size)))
    assert not done["is_error"], done
    assert done["meta"]["outlast/client"]["unanswered"] == "not_handed"
    assert "The client did not get this for 'look'" in said(done)


async def test_a_stored_answer_keeps_the_note_and_what_the_client_said(api: httpx.AsyncClient) -> None:
    task = await waiting(api, call("server_client", bytes=20_000))
    await taken(api, task, action="decline", message="not now")
    done = await result(api, task["id"])
    assert done["structured"]["compressed"] is True
    assert said(done).endswith(f"{WORDS['decline']} {STANDS}")
    task = await waiting(api, call("server_client", bytes=20_000))
    await taken(api, task, {"seen": True, "remark": "a word of mine"})
    done = await result(api, task["id"])
    assert "answer" not in done["meta"]["outlast/client"]
    stored = await api.get(f"/v1/outputs/{done['structured']['locator']}")
    assert "a word of mine" in stored.text


async def test_an_mcp_client_that_gives_only_wrong_answers_gets_the_result(api: httpx.AsyncClient) -> None:
    wire = Wire(api, LEGACY)
    await wire.initialize({"elicitation": {}})
    body = {"name": "server_client", "arguments": {}, "_meta": {"outlast/wait-secs": 110}}
    asked, done = 0, dict[str, Any]()
    async for message in wire.messages("tools/call", body):
        if message.get("method") == "elicitation/create":
            asked += 1
            await wire.reply(message, {"action": "accept", "content": {"seen": "perhaps"}})
            assert asked <= 3
        done = message.get("result", done)
    assert 'It said: "It gave 3 answers that do not fit."' in text_of(done)


async def test_an_mcp_client_that_answers_with_an_error_gets_the_result(api: httpx.AsyncClient) -> None:
    wire = Wire(api, LEGACY)
    await wire.initialize({"elicitation": {}})
    body = {"name": "server_client", "arguments": {}, "_meta": {"outlast/wait-secs": 110}}
    done: dict[str, Any] = {}
    async for message in wire.messages("tools/call", body):
        if message.get("method") == "elicitation/create":
            await wire.reply_with_error(message, -32603, "the form has a defect")
        done = message.get("result", done)
    assert not done.get("isError")
    assert 'It said: "the form has a defect".' in text_of(done)
