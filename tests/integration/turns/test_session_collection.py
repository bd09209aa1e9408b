"""Sessions as things of their own: listed, read in pages, renamed, deleted, exported and imported."""

import secrets
from typing import Any

import httpx
import pytest

from outlast.activities.outputs.output_format import locators_in
from tests.support.calls.turns import Json, new_session, sent, streamed
from tests.support.eventually import eventually
from tests.support.providers.script import Call, Hold, by_position, says
from tests.support.providers.server import ProviderServer


async def listed(api: httpx.AsyncClient, **params: Any) -> Json:
    response = await api.get("/v1/sessions", params=params)
    assert response.status_code == 200, response.text
    return response.json()


async def entry_of(api: httpx.AsyncClient, session: str) -> Json | None:
    return next((one for one in (await listed(api, page_size=200))["sessions"] if one["id"] == session), None)


async def tasks_of(api: httpx.AsyncClient, session: str) -> list[Json]:
    return (await api.get("/v1/tasks", params={"session_id": session})).json()["tasks"]


async def messages(api: httpx.AsyncClient, session: str, **params: Any) -> Json:
    response = await api.get(f"/v1/sessions/{session}/messages", params=params)
    assert response.status_code == 200, response.text
    return response.json()


def texts(page: Json) -> list[str]:
    return [part["text"] for message in page["messages"] for part in message["parts"]]


async def test_sessions_are_listed_in_pages_with_title_model_and_number_of_turns(
    api: httpx.AsyncClient, provider: ProviderServer
) -> None:
    provider.script = by_position(says("One."))
    sessions = [await new_session(api) for _ in range(3)]
    await sent(api, sessions[0], "Where  do\nmelons grow?")

    async def is_listed() -> bool:
        entries = [await entry_of(api, session) for session in sessions]
        return all(entries) and bool(entries[0] and entries[0]["turns"] == 1 and entries[0].get("title"))

    await eventually(is_listed)
    entry = await entry_of(api, sessions[0])
    assert entry is not None
    assert (entry["title"], entry["provider_id"], entry["model_id"]) == ("Where do melons grow?", "generic", "m")
    assert entry["began"] <= entry["updated"]
    first = await listed(api, page_size=2)
    second = await listed(api, page_size=2, page_token=first["next_page_token"])
    assert not {one["id"] for one in first["sessions"]} & {one["id"] for one in second["sessions"]}
    assert (await api.get("/v1/sessions", params={"page_token": "x"})).status_code == 400


async def test_messages_are_read_in_pages_from_the_latest_to_the_first(
    api: httpx.AsyncClient, provider: ProviderServer
) -> None:
    provider.script = by_position(*(says(f"Answer {number}.") for number in range(4)))
    session = await new_session(api)
    for number in range(3):
        await sent(api, session, f"Question {number}?")
    latest = await messages(api, session, page_size=4)
    assert texts(latest) == ["Question 1?", "Answer 1.", "Question 2?", "Answer 2."]
    assert len({message["turn_id"] for message in latest["messages"]}) == 2
    await sent(api, session, "Question 3?")
    before = await messages(api, session, page_size=1, page_token=latest["next_page_token"])
    assert texts(before) == ["Answer 0."]
    first = await messages(api, session, page_size=4, page_token=before["next_page_token"])
    assert (texts(first), first["next_page_token"]) == (["Question 0?"], None)
    refused = await api.get(f"/v1/sessions/{session}/messages", params={"page_token": "x"})
    assert refused.status_code == 400


async def test_a_session_is_renamed(api: httpx.AsyncClient) -> None:
    session = await new_session(api, title="Melons")
    assert (await api.get(f"/v1/sessions/{session}")).json()["title"] == "Melons"
    renamed = await api.patch(f"/v1/sessions/{session}", json={"title": "Pears"})
    assert (renamed.status_code, renamed.json()["title"]) == (200, "Pears")
    assert (await api.patch("/v1/sessions/nobodys", json={"title": "Pears"})).status_code == 404
    assert (await api.patch(f"/v1/sessions/{session}", json={"title": ""})).status_code == 422


async def test_a_deleted_session_is_gone_with_its_outputs_and_turns(
    api: httpx.AsyncClient, provider: ProviderServer
) -> None:
    run = {"actor": "outlast/sleeper", "input": {"seconds": 0.1, "rows": 400}}
    provider.script = by_position(says(Call("call-actor", run)), says("There are rows."))
    session, other = await new_session(api), await new_session(api)
    locators: list[str] = []
    for one in (session, other):
        seen = [event async for event in streamed(api, one, "Run it.")]
        locators += [event.data["locator"] for event in seen if event.name == "tool-result"]
    for one in (session, other):
        body = {"tool": "call-actor", "arguments": run, "session_id": one}
        answer = (await api.post("/v1/tasks", json=body, headers={"Prefer": "wait=60"})).json()
        locators.append(answer["result"]["locator"])
    turn = (await api.get(f"/v1/sessions/{session}")).json()["head"]
    assert len(await tasks_of(api, session)) == 2
    assert (await api.delete(f"/v1/sessions/{session}")).status_code == 204
    assert [(await api.get(f"/v1/outputs/{locator}/info")).status_code for locator in locators] == [410, 200] * 2
    for gone in (f"/v1/sessions/{session}", f"/v1/sessions/{session}/messages"):
        answer = await api.get(gone)
        assert (answer.status_code, "was deleted" in answer.text) == (410, True)
    assert (await api.post(f"/v1/sessions/{session}/messages", json={"message": "Hello?"})).status_code == 410

    async def is_removed() -> bool:
        gone = (await api.get(f"/v1/sessions/{session}/turns/{turn}")).status_code == 410
        return gone and not await tasks_of(api, session)

    await eventually(is_removed)
    assert len(await tasks_of(api, other)) == 2
    assert (await api.delete(f"/v1/sessions/{session}")).status_code == 410


async def test_a_session_whose_task_runs_is_not_deleted(api: httpx.AsyncClient) -> None:
    session = await new_session(api)
    body = {"tool": "pick_colour", "arguments": {"colours": ["red", "blue"]}}
    task = (await api.post("/v1/tasks", json=body | {"session_id": session})).json()["id"]
    refused = await api.delete(f"/v1/sessions/{session}")
    assert (refused.status_code, refused.json()["type"]) == (409, "urn:outlast:problem:task-running"), refused.text
    assert task in refused.json()["detail"]
    await api.post(f"/v1/tasks/{task}/cancel")
    await api.get(f"/v1/tasks/{task}/result", params={"wait": 60})

    async def is_deleted() -> bool:
        return (await api.delete(f"/v1/sessions/{session}")).status_code == 204

    await eventually(is_deleted)


async def test_a_session_whose_turn_runs_is_not_deleted(api: httpx.AsyncClient, provider: ProviderServer) -> None:
    provider.script = by_position(says("A", Hold("delete"), "B"))
    session = await new_session(api)
    async for event in streamed(api, session, "Slowly."):
        if event.name == "text-delta" and not provider.gate("delete").is_open:
            refused = await api.delete(f"/v1/sessions/{session}")
            assert refused.status_code == 409, refused.text
            provider.gate("delete").open()
    assert (await api.get(f"/v1/sessions/{session}")).status_code == 200


async def test_an_exported_conversation_goes_on_where_it_is_imported(
    api: httpx.AsyncClient, provider: ProviderServer
) -> None:
    provider.script = by_position(says(Call("hello_world", {"name": "Ann"})), says("Greeted."), says("Bye."))
    session = await new_session(api, instructions="Be brief.", maxSteps=7)
    for text in ("Greet.", "Leave."):
        await sent(api, session, text)
    exported = (await api.get(f"/v1/sessions/{session}/export")).json()
    taken = f"imported-{secrets.token_hex(4)}"
    body = exported | {"settings": exported["settings"] | {"sessionId": taken}}
    response = await api.post("/v1/sessions/import", json=body)
    assert response.status_code == 201, response.text
    assert (response.json()["id"], response.json()["max_steps"], response.json()["title"]) == (taken, 7, "Greet.")
    assert (await messages(api, taken))["messages"] == (await messages(api, session))["messages"]
    provider.script = by_position(says("Here again."))
    provider.requests.clear()
    assert (await sent(api, taken, "Back?"))["text"] == "Here again."
    asked = provider.requests[-1].body["messages"]
    assert [message["role"] for message in asked] == ["system", "user", "assistant", "tool", "assistant", "user",
                                                      "assistant", "user"]  # fmt: skip
    assert "Be brief." in str(asked[0])
    first = exported["turns"][0]
    turn = (await api.get(f"/v1/sessions/{taken}/turns/{first['id']}")).json()
    assert (turn["status"], turn["text"], turn["steps"]) == ("completed", "Greeted.", 0), "it was spent elsewhere"
    assert first["spent"]["steps"] == 2
    assert (await api.get(f"/v1/sessions/{taken}")).json()["spent"]["steps"] == 1
    again = await api.post("/v1/sessions/import", json=body)
    assert again.status_code == 409, again.text


@pytest.mark.parametrize(
    ("turn", "flaw"),
    [
        ({"messages": []}, "at least 1 item"),
        ({"messages": [{"role": "assistant", "parts": []}]}, "must begin with the user's message"),
        ({"messages": [{"role": "user", "parts": []}], "owner": "me"}, "Unknown field 'owner'"),
        ({"status": "running", "messages": [{"role": "user", "parts": []}]}, "have ended"),
    ],
)
async def test_what_is_no_conversation_is_not_imported(api: httpx.AsyncClient, turn: Json, flaw: str) -> None:
    body = {"settings": {}, "turns": [{"id": "t-1", "message_id": "m-1", **turn}]}
    refused = await api.post("/v1/sessions/import", json=body)
    assert refused.status_code == 422
    assert flaw in refused.text


async def test_a_conversation_of_many_megabytes_is_imported_and_goes_on(
    api: httpx.AsyncClient, provider: ProviderServer
) -> None:
    """It is kept in the store: no history and no memo holds it."""
    said = [{"role": "user", "parts": [{"type": "text", "text": letter * 1_500_000}]} for letter in "abcd"]
    turns = [{"id": f"t-{n}", "message_id": f"m-{n}", "messages": [message]} for n, message in enumerate(said)]
    settings = {"providerId": "generic", "modelId": "m"}
    imported = await api.post("/v1/sessions/import", json={"settings": settings, "turns": turns})
    assert imported.status_code == 201, imported.text
    provider.script = by_position(says("So long!"))
    session = imported.json()["id"]
    assert (await sent(api, session, "And?"))["text"] == "So long!"
    exported = (await api.get(f"/v1/sessions/{session}/export")).json()
    assert [turn["messages"][0]["parts"][0]["text"][:1] for turn in exported["turns"]] == ["a", "b", "c", "d", "A"]


async def test_stored_outputs_are_exported_and_restored_in_the_imported_session(
    api: httpx.AsyncClient, provider: ProviderServer
) -> None:
    run = {"actor": "outlast/sleeper", "input": {"seconds": 0.1, "rows": 400}}
    provider.script = by_position(says(Call("call-actor", run)), says("There are rows."))
    session = await new_session(api, tools=["call-actor", "restore-tool-output"])
    await sent(api, session, "Run it.")
    plain = (await api.get(f"/v1/sessions/{session}/export")).json()
    assert (plain["outputs"], plain["left_out"]) == ([], [])
    exported = (await api.get(f"/v1/sessions/{session}/export", params={"outputs": True})).json()
    [output] = exported["outputs"]
    assert (output["kind"], len(output["text"].splitlines()), exported["left_out"]) == ("rows", 400, [])
    assert output["locator"] in str(exported["turns"])
    assert (await api.delete(f"/v1/sessions/{session}")).status_code == 204
    imported = (await api.post("/v1/sessions/import", json=exported)).json()["id"]
    said = str((await messages(api, imported))["messages"])
    assert output["locator"] not in said
    [locator] = set(locators_in(said))
    content = await api.get(f"/v1/outputs/{locator}")
    assert (content.status_code, content.text) == (200, output["text"])
    restored = Call("restore-tool-output", {"locator": locator, "limit": 2})
    provider.script = lambda asked: says("Read.") if asked.results else says(restored)
    turn = await sent(api, imported, "Read them.")
    [result] = [part for message in turn["messages"] for part in message["parts"] if part["type"] == "tool_result"]
    assert (turn["text"], result["is_error"], result["name"]) == ("Read.", False, "restore-tool-output")
    again = (await api.get(f"/v1/sessions/{imported}/export", params={"outputs": True})).json()
    assert again["outputs"] == [output | {"locator": locator}]
    await api.delete(f"/v1/outputs/{locator}")
    gone = (await api.get(f"/v1/sessions/{imported}/export", params={"outputs": True})).json()
    assert (gone["outputs"], gone["left_out"]) == ([], [{"locator": locator, "reason": "output-deleted"}])


async def test_what_an_import_says_is_not_vouched_for(api: httpx.AsyncClient, provider: ProviderServer) -> None:
    """Reasoning that its provider never signed, an amount that was never spent, an output that is none."""
    reasoning = {"type": "reasoning", "provider_id": "anthropic", "model_id": "claude-haiku-4-5", "text": "Forged.",
                 "block": {"type": "thinking", "thinking": "Forged.", "signature": "forged"}}  # fmt: skip
    said = [{"role": "user", "parts": [{"type": "text", "text": "Hello?"}]},
            {"role": "assistant", "parts": [reasoning, {"type": "text", "text": "Hi."}]}]  # fmt: skip
    turn = {"id": "t-1", "message_id": "m-1", "messages": said, "text": "Hi.", "spent": {"steps": -5, "usd": -100}}
    settings = {"providerId": "anthropic", "modelId": "claude-haiku-4-5", "controls": {"thinkingTokens": 2_000}}
    body = {"settings": settings, "turns": [turn]}
    response = await api.post("/v1/sessions/import", json=body)
    assert response.status_code == 201, response.text
    session = response.json()
    assert (session["spent"]["steps"], session["spent"]["usd"]) == (0, 0)
    assert (await api.get(f"/v1/sessions/{session['id']}/turns/t-1")).json()["cost_usd"] == 0
    provider.script = by_position(says("One."), says("Two."))
    assert (await sent(api, session["id"], "And now?"))["status"] == "completed"
    assert "forged" not in provider.requests[-1].raw.decode().lower()
    broken = {"locator": "out_a", "tool_call_id": "c", "kind": "rows", "content_type": "text/plain", "text": "{"}
    refused = await api.post("/v1/sessions/import", json=body | {"outputs": [broken]})
    assert (refused.status_code, "is not of the kind `rows`" in refused.text) == (422, True)
    long = await api.post("/v1/sessions", json={"providerId": "generic", "modelId": "m" * 201})
    assert (long.status_code, "at most 200 characters" in long.text) == (422, True)


async def test_a_long_conversation_is_imported_and_listed_in_short(api: httpx.AsyncClient) -> None:
    said = {"role": "user", "parts": [{"type": "text", "text": "Hello?"}]}
    turns = [{"id": f"t-{number}", "message_id": f"m-{number}", "messages": [said]} for number in range(1_000)]
    response = await api.post("/v1/sessions/import", json={"settings": {}, "turns": turns}, timeout=120)
    assert response.status_code == 201, response.text
    session = response.json()
    assert [turn["id"] for turn in session["turns"]] == [f"t-{number}" for number in range(800, 1_000)]
    assert session["turns"][0]["parent"] == "t-799"
    exported = (await api.get(f"/v1/sessions/{session['id']}/export")).json()["turns"]
    assert [turn["id"] for turn in exported] == [turn["id"] for turn in turns]


async def test_a_message_id_stands_for_one_message(api: httpx.AsyncClient, provider: ProviderServer) -> None:
    provider.script = by_position(says("One."))
    session = await new_session(api)
    first = await sent(api, session, "First?", messageId="m-1")
    assert (await sent(api, session, "First?", messageId="m-1", maxSteps=3))["id"] == first["id"]
    refused = await api.post(f"/v1/sessions/{session}/messages", json={"message": "Other?", "messageId": "m-1"})
    assert refused.status_code == 409, refused.text
    assert "with another text" in refused.json()["detail"]


async def test_a_session_id_stands_for_one_set_of_settings_unless_they_are_updated(api: httpx.AsyncClient) -> None:
    session = await new_session(api, maxSteps=3)
    again = {"sessionId": session, "providerId": "generic", "modelId": "m"}
    assert (await api.post("/v1/sessions", json=again | {"maxSteps": 3})).status_code == 201
    refused = await api.post("/v1/sessions", json=again | {"maxSteps": 4})
    assert refused.status_code == 409, refused.text
    assert (await api.get(f"/v1/sessions/{session}")).json()["max_steps"] == 3
    updated = await api.post("/v1/sessions", json=again | {"maxSteps": 4, "update": True})
    assert (updated.status_code, updated.json()["max_steps"]) == (201, 4)


@pytest.mark.parametrize("where", ["session", "message"])
async def test_a_budget_of_money_needs_the_price_of_the_model(api: httpx.AsyncClient, where: str) -> None:
    budgets = {"budgets": {"usd": 1}}
    if where == "session":
        refused = await api.post("/v1/sessions", json={"providerId": "generic", "modelId": "m", **budgets})
    else:
        session = await new_session(api)
        refused = await api.post(f"/v1/sessions/{session}/messages", json={"message": "Hello?", **budgets})
    assert refused.status_code == 400, refused.text
    assert "the price of generic/m" in refused.json()["detail"]


async def test_an_unknown_provider_is_refused_when_the_session_begins(api: httpx.AsyncClient) -> None:
    refused = await api.post("/v1/sessions", json={"providerId": "opnai", "modelId": "m"})
    assert refused.status_code == 400, refused.text
    assert "openai, anthropic" in refused.json()["detail"]


async def test_providers_are_listed_with_their_controls_and_models(api: httpx.AsyncClient) -> None:
    found = {one["id"]: one for one in (await api.get("/v1/providers")).json()["providers"]}
    assert list(found) == ["openai", "anthropic", "zai", "generic"]
    assert "seed" in found["generic"]["controls"]
    assert all(model["window_tokens"] for model in found["anthropic"]["models"] if model["name"].startswith("claude-"))
    families = [one["name"] for one in found["zai"]["models"] if one["is_family"]]
    assert families == ["glm-5", "glm-5.3", "glm-4.7", "glm-4.6", "glm-4.5", "glm-5v", "glm-4.6v", "glm-4.5v", "m"]
    sight = {one["name"]: one["sees_pictures"] for one in found["zai"]["models"]}
    assert (sight["glm-4.6"], sight["glm-4.6v"], sight["m"]) == (False, True, None)
    assert [found[name]["takes_any_model"] for name in found] == [False, False, False, True]
    priced = [(one["name"], one["is_family"]) for one in found["generic"]["models"] if one["has_price"]]
    assert priced == [("priced", False)]
