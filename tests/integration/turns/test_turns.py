"""Turns through worker and API processes, with a scripted model."""

import re
from functools import partial

import httpx
import pytest

from outlast.workflows.contracts.sessions import session_workflow_id
from tests.support.calls.questions import asks, taken
from tests.support.calls.tasks import Event
from tests.support.calls.turns import named, new_session, sent, session_events, streamed, text_of, turn_events
from tests.support.eventually import eventually
from tests.support.providers.script import Asked, Break, Call, Hold, Refusal, Step, by_position, in_order, says
from tests.support.providers.server import ProviderServer
from tests.support.stacks.api_server import connect
from tests.support.stacks.service import Service


async def test_two_tools_at_once_and_a_final_text(api: httpx.AsyncClient, provider: ProviderServer) -> None:
    provider.script = by_position(
        says("Let me see. ", Call("hello_world", {"name": "Ann"}), Call("hello_world", {"name": "Bob"})),
        says("Both ", "greeted."),
    )
    session = await new_session(api)
    seen = [event async for event in streamed(api, session, "Greet them.")]
    assert text_of(seen) == "Let me see. Both greeted."
    calls, results = named(seen, "tool-call"), named(seen, "tool-result")
    assert [call["tool"] for call in calls] == ["hello_world", "hello_world"]
    assert sorted(result["preview"] for result in results) == ["Hello, Ann!", "Hello, Bob!"]
    for step in named(seen, "step-finish"):
        assert all(isinstance(number, int) for number in step["usage"].values())
    (end,) = named(seen, "finish")
    assert (end["status"], end["reason"], end["steps"]) == ("completed", "stop", 2)
    tasks = (await api.get("/v1/tasks", params={"session_id": session})).json()["tasks"]
    assert {task["id"] for task in tasks} == {call["task_id"] for call in calls}
    assert {task["status"] for task in tasks} == {"completed"}


async def test_a_turn_without_streaming_is_answered_whole(api: httpx.AsyncClient, provider: ProviderServer) -> None:
    provider.script = by_position(says("One."), says("Two."))
    session = await new_session(api, instructions="Be brief.")
    first = await sent(api, session, "First?", messageId="m-1")
    again = await sent(api, session, "First?", messageId="m-1")
    assert (first["text"], first["status"]) == ("One.", "completed")
    assert again == first
    assert (await sent(api, session, "Second?"))["text"] == "Two."
    view = (await api.get(f"/v1/sessions/{session}")).json()
    assert [turn["parent"] for turn in view["turns"] if turn.get("parent")] == [first["id"]]
    assert view["spent"]["steps"] == 2


async def test_the_definitions_are_the_same_bytes_in_every_step(
    api: httpx.AsyncClient, provider: ProviderServer
) -> None:
    provider.script = by_position(says(Call("hello_world", {"name": "Ann"})), says("Done."), says("Again."))
    session = await new_session(api)
    before = len(provider.requests)
    await sent(api, session, "Greet.", toolMask={"hello_world": True})
    await sent(api, session, "Once more.")
    tools = {str(seen.body["tools"]) for seen in provider.requests[before:]}
    systems = {str(seen.body["messages"][0]) for seen in provider.requests[before:]}
    assert (len(provider.requests) - before, len(tools), len(systems)) == (3, 1, 1)


async def test_a_masked_and_an_unknown_tool_and_broken_arguments_are_envelopes(
    api: httpx.AsyncClient, provider: ProviderServer
) -> None:
    provider.script = by_position(
        says(
            Call("say_message", {"text": "x"}),
            Call("hello_wrld", {}),
            Call("hello_world", "{broken"),
            Call("hello_world", {"name": 7}),
        ),
        says("I see."),
    )
    session = await new_session(api)
    seen = [event async for event in streamed(api, session, "Try.", toolMask={"hello_world": True})]
    errors = [result["error"] for result in named(seen, "tool-result")]
    assert [error["category"] for error in errors] == ["permission", "not_found", "validation", "validation"]
    assert errors[0]["allowed_tools"] == errors[1]["allowed_tools"] == ["hello_world"]
    assert "hello_world" in errors[1]["hint"]
    assert not (await api.get("/v1/tasks", params={"session_id": session})).json()["tasks"]
    assert '"allowed_tools":["hello_world"]' in provider.requests[-1].asked.results[0]


async def test_the_same_failure_again_is_reminded_of_and_ends_the_turn(
    api: httpx.AsyncClient, provider: ProviderServer
) -> None:
    provider.script = by_position(says(Call("hello_world", {"name": 7})))
    session = await new_session(api)
    seen = [event async for event in streamed(api, session, "Try.")]
    assert [event.name for event in seen if event.name in ("reminder", "error", "finish")] == [
        "reminder",
        "error",
        "finish",
    ]
    (end,) = named(seen, "finish")
    assert (end["status"], end["reason"], end["steps"]) == ("stopped", "doom_loop", 2)
    told = await session_events(api, session, 2)
    assert [event.name for event in told] == ["call_refused", "call_refused"]
    assert {event.data["turn_id"] for event in told} == {end["turn_id"]}
    assert told[1].data["self_correction"]["action"] == "stop"


async def test_a_failure_of_an_earlier_turn_counts_towards_the_reminder_and_not_towards_the_stop(
    api: httpx.AsyncClient, provider: ProviderServer
) -> None:
    provider.script = lambda asked: says("I see.") if asked.results else says(Call("hello_world", {"name": 7}))
    session = await new_session(api)
    turns = [[event async for event in streamed(api, session, text)] for text in ("Try.", "Again.", "Once more.")]
    assert [len(named(turn, "reminder")) for turn in turns] == [0, 1, 0]
    assert [named(turn, "finish")[0]["status"] for turn in turns] == ["completed"] * 3
    assert "failed 2 times" in named(turns[1], "reminder")[0]["text"]


async def test_refused_calls_of_rest_clients_are_counted_by_their_session(api: httpx.AsyncClient) -> None:
    session = await new_session(api)
    for _ in range(2):
        refused = await api.post("/v1/tasks", json={"tool": "hello_wrld", "session_id": session})
        assert refused.status_code == 404
    told = await session_events(api, session, 2)
    assert [event.data["error"]["category"] for event in told] == ["not_found"] * 2
    assert told[1].data["self_correction"]["count"] == 2


async def test_turns_steps_and_tokens_are_counted(
    api: httpx.AsyncClient, service: Service, provider: ProviderServer
) -> None:
    async def series() -> dict[str, float]:
        async with httpx.AsyncClient(trust_env=False, timeout=180) as http:
            text = (await http.get(service.worker_metrics_url)).text
        samples = (line.rsplit(" ", 1) for line in text.splitlines() if line.startswith("outlast_"))
        counted = {name: float(value) for name, value in samples}
        labels = {"model_calls": 'provider="generic"', "model_tokens": 'kind="input"', "turns": 'reason="stop"'}
        labels["tool_mask_resolutions"] = 'outcome="masked"'
        return {
            name: sum(v for key, v in counted.items() if key.startswith(f"outlast_{name}_total") and label in key)
            for name, label in labels.items()
        }

    provider.script = by_position(says(Call("hello_world", {"name": "Ann"})), says("Done."))
    session, before = await new_session(api), await series()
    turn = await sent(api, session, "Greet.", toolMask={"hello_world": True})

    async def counted() -> bool:
        added = {name: value - before[name] for name, value in (await series()).items()}
        tokens = turn["usage"]["input_tokens"]
        return added == {"model_calls": 2, "model_tokens": tokens, "turns": 1, "tool_mask_resolutions": 2}

    await eventually(counted)


async def test_outputs_are_kept_as_the_message_says_or_else_as_its_session_does(
    api: httpx.AsyncClient, provider: ProviderServer
) -> None:
    rows = {"actor": "outlast/sleeper", "input": {"seconds": 0.1, "rows": 200}}
    provider.script = lambda asked: says("Seen.") if asked.results else says(Call("call-actor", rows))
    session = await new_session(api, tools=["actors"], output={"compress": False})
    whole = [event async for event in streamed(api, session, "Run it.")]
    stored = [event async for event in streamed(api, session, "Run it.", output={"compress": True})]
    assert ["compressed" in named(turn, "tool-result")[0] for turn in (whole, stored)] == [False, True]


async def test_the_last_step_has_no_tools(api: httpx.AsyncClient, provider: ProviderServer) -> None:
    provider.script = by_position(says(Call("hello_world", {"name": "Ann"})))
    session = await new_session(api, maxSteps=2)
    turn = await sent(api, session, "Greet.")
    assert (turn["steps"], turn["status"], turn["reason"]) == (2, "stopped", "max_steps")
    assert provider.requests[-1].asked.callable_tools == ()


async def test_a_budget_of_tokens_stops_the_turn_and_one_of_the_session_the_next(
    api: httpx.AsyncClient, provider: ProviderServer
) -> None:
    provider.script = by_position(says(Call("hello_world", {"name": "Ann"})), says("Done."))
    session = await new_session(api, budgets={"steps": 1})
    turn = await sent(api, session, "Greet.", budgets={"tokens": 1})
    assert turn["steps"] == 1
    refused = await api.post(f"/v1/sessions/{session}/messages", json={"message": "More."})
    assert refused.status_code == 402, refused.text
    other = await new_session(api)
    stopped = await sent(api, other, "Greet.", budgets={"tokens": 1})
    assert (stopped["status"], stopped["reason"], stopped["steps"]) == ("stopped", "budget", 1)


async def test_money_for_models_and_actors_is_a_budget_of_turn_and_session(
    api: httpx.AsyncClient, provider: ProviderServer
) -> None:
    run = {"actor": "outlast/sleeper", "input": {"seconds": 1}}
    provider.script = by_position(says(Call("call-actor", run)), says(Call("hello_world", {"name": "Ann"})))
    session = await new_session(api, modelId="priced", budgets={"usd": 1000})
    turn = await sent(api, session, "Run it.", budgets={"usd": 0.000001})
    assert (turn["status"], turn["reason"], turn["steps"]) == ("stopped", "budget", 1)
    assert "US dollars" in turn["error"]["message"]
    (task,) = (await api.get("/v1/tasks", params={"session_id": session})).json()["tasks"]
    tokens = (turn["usage"]["input_tokens"] + turn["usage"]["output_tokens"]) / 1000
    assert turn["cost_usd"] == pytest.approx(tokens + (task["run"]["usage_total_usd"] or 0))
    assert (await api.get(f"/v1/sessions/{session}")).json()["spent"]["usd"] == pytest.approx(turn["cost_usd"])


async def test_a_message_may_hold_pictures_and_choose_its_model(
    api: httpx.AsyncClient, provider: ProviderServer
) -> None:
    provider.script = by_position(says("A dot."))
    session = await new_session(api)
    picture = {"type": "image", "media_type": "image/png", "data": "iVBORw0KGgo="}
    message = [{"type": "text", "text": "What is it?"}, picture]
    turn = await sent(api, session, message, providerId="anthropic", modelId="claude-x")
    assert turn["text"] == "A dot."
    asked = provider.requests[-1].body
    assert asked["model"] == "claude-x"
    assert [block["type"] for block in asked["messages"][0]["content"]] == ["text", "image"]


async def test_a_large_output_is_stored_and_restored_within_the_turn(
    api: httpx.AsyncClient, provider: ProviderServer
) -> None:
    def script(asked: Asked) -> Step:
        if asked.position == 0:
            return says(Call("call-actor", {"actor": "outlast/sleeper", "input": {"seconds": 0.1, "rows": 400}}))
        if asked.position == 1:
            (locator,) = re.findall(r"out_[a-z2-7_]+", asked.results[0])[:1]
            return says(Call("restore-tool-output", {"locator": locator, "limit": 3}))
        return says("There are rows.")

    provider.script = script
    session = await new_session(api)
    seen = [event async for event in streamed(api, session, "Run it.")]
    stored, restored = named(seen, "tool-result")
    assert stored["compressed"] is True
    assert stored["summary"]
    assert not restored["is_error"], restored
    assert named(seen, "finish")[0]["status"] == "completed"


async def test_a_hand_off_is_shown_and_answered_at_its_task(api: httpx.AsyncClient, provider: ProviderServer) -> None:
    provider.script = by_position(says(Call("pick_colour", {"colours": ["red", "blue"]})), says("Red it is."))
    session = await new_session(api)
    seen: list[Event] = []
    async for event in streamed(api, session, "Which colour?"):
        seen.append(event)
        if event.name == "hand-off":
            await taken(api, await asks(api, event.data["task_id"]), {"colour": "red"})
    assert named(seen, "hand-off")[0]["requests"]
    assert text_of(seen) == "Red it is."


async def test_cancelling_stops_the_turn_its_tools_and_their_runs(
    api: httpx.AsyncClient, provider: ProviderServer
) -> None:
    long = {"actor": "outlast/sleeper", "input": {"seconds": 600}}
    provider.script = by_position(says("Starting.", Call("call-actor", long)), says("It was cancelled, then."))
    session = await new_session(api)
    seen: list[Event] = []
    async for event in streamed(api, session, "Run for long."):
        seen.append(event)
        if event.name == "tool-call":
            task_id = event.data["task_id"]
            await eventually(partial(_run_of, api, task_id))
            turn = (await api.get(f"/v1/sessions/{session}")).json()["running"]
            assert (await api.post(f"/v1/sessions/{session}/turns/{turn}/cancel")).status_code == 202
    task = (await api.get(f"/v1/tasks/{named(seen, 'tool-call')[0]['task_id']}")).json()
    assert (task["status"], task["run"]["status"]) == ("cancelled", "ABORTED")
    (end,) = named(seen, "finish")
    assert end["status"] == "cancelled"
    assert task["run"]["usage_total_usd"] > 0
    assert end["cost_usd"] == pytest.approx(task["run"]["usage_total_usd"])
    assert (await sent(api, session, "What now?"))["text"] == "It was cancelled, then."
    spoken = [(one["role"], one["content"]) for one in provider.requests[-1].body["messages"] if one["role"] != "tool"]
    assert [said for said in spoken if said[0] != "system"] == [
        ("user", "Run for long."),
        ("assistant", "Starting."),
        ("user", "What now?"),
    ], "what a whole answer said is kept once"


async def test_retrying_an_assistants_message_forks_the_conversation(
    api: httpx.AsyncClient, provider: ProviderServer
) -> None:
    provider.script = by_position(says("One."), says("Two."))
    session = await new_session(api)
    await sent(api, session, "First?")
    second = await sent(api, session, "Second?")
    provider.script = by_position(says("-"), says("Another two."), says("Three."))
    retried = await sent(api, session, None, retryOfAssistantMessageId=second["assistant_message_id"])
    assert retried["text"] == "Another two."
    assert retried["messages"][0] == second["messages"][0]
    assert (await sent(api, session, "Third?"))["text"] == "Three."
    said = [message["content"] for message in provider.requests[-1].body["messages"] if message["role"] == "assistant"]
    assert "Two." not in str(said)


async def test_a_reader_goes_on_anywhere(api: httpx.AsyncClient, provider: ProviderServer) -> None:
    provider.script = by_position(says("Wait. ", Call("hello_world", {"name": "Ann"})), says("Now ", "done."))
    session = await new_session(api)
    seen = [event async for event in streamed(api, session, "Greet.")]
    turn = named(seen, "finish")[0]["turn_id"]
    for position, event in enumerate(seen):
        rest = [later async for later in turn_events(api, session, turn, after=event.id)]
        assert rest == seen[position + 1 :]
    refused = await api.get(f"/v1/sessions/{session}/turns/{turn}/events", headers={"Last-Event-ID": "x"})
    assert refused.status_code == 400


async def test_a_provider_that_fails_for_good_ends_the_turn_with_its_error(
    api: httpx.AsyncClient, provider: ProviderServer
) -> None:
    provider.script = by_position(Refusal(400, "invalid_request_error", "No."))
    session = await new_session(api)
    turn = await sent(api, session, "Hello?")
    assert (turn["status"], turn["error"]["category"]) == ("failed", "validation")


async def test_a_broken_stream_is_repeated_and_not_doubled(api: httpx.AsyncClient, provider: ProviderServer) -> None:
    provider.script = in_order(says("One two ", Break()), says("One two ", "three."))
    provider.requests.clear()
    session = await new_session(api)
    seen = [event async for event in streamed(api, session, "Count.")]
    assert text_of(seen) == "One two three."
    assert named(seen, "retry")[-1]["error_kind"] == "network"


async def test_a_reader_hears_at_once_that_the_provider_is_busy(
    api: httpx.AsyncClient, provider: ProviderServer
) -> None:
    provider.script = by_position(Refusal(429, "rate_limit_error", "Slow down.", {"retry-after": "1"}))
    session = await new_session(api)
    seen: list[Event] = []
    async for event in streamed(api, session, "Hello?"):
        seen.append(event)
        if event.name == "retry" and event.id is None:
            provider.script = by_position(says("Hello."))
    assert named(seen, "retry")[0]["error_kind"] == named(seen, "retry")[-1]["error_kind"] == "rate_limit"
    assert text_of(seen) == "Hello."


async def test_the_minutes_are_a_budget_that_stops_tools_too(api: httpx.AsyncClient, provider: ProviderServer) -> None:
    long = {"actor": "outlast/sleeper", "input": {"seconds": 600}}
    provider.script = by_position(says(Call("call-actor", long)))
    session = await new_session(api)
    turn = await sent(api, session, "Run for long.", budgets={"minutes": 0.1})
    assert (turn["status"], turn["reason"]) == ("stopped", "budget")
    (task,) = (await api.get("/v1/tasks", params={"session_id": session})).json()["tasks"]
    assert task["status"] == "cancelled"


async def test_a_model_that_speaks_for_too_long_is_stopped_as_well(
    api: httpx.AsyncClient, provider: ProviderServer
) -> None:
    provider.script = by_position(says("And then ", Hold("endless")))
    session = await new_session(api)
    turn = await sent(api, session, "Tell.", budgets={"minutes": 0.05})
    assert (turn["status"], turn["reason"]) == ("stopped", "budget")


async def test_a_task_that_is_cancelled_alone_leaves_the_turn_going(
    api: httpx.AsyncClient, provider: ProviderServer
) -> None:
    long = {"actor": "outlast/sleeper", "input": {"seconds": 600}}
    provider.script = by_position(says(Call("call-actor", long)), says("Somebody stopped it."))
    session = await new_session(api)
    seen: list[Event] = []
    async for event in streamed(api, session, "Run."):
        seen.append(event)
        if event.name == "tool-call":
            await eventually(partial(_run_of, api, event.data["task_id"]))
            await api.post(f"/v1/tasks/{event.data['task_id']}/cancel")
    assert named(seen, "tool-result")[0]["error"]["category"] == "cancelled"
    assert text_of(seen) == "Somebody stopped it."


async def test_somebody_elses_session_is_none(api: httpx.AsyncClient) -> None:
    assert (await api.get("/v1/sessions/nobodys")).status_code == 404
    assert (await api.post("/v1/sessions/nobodys/messages", json={"message": "Hi"})).status_code == 404
    session = await new_session(api)
    assert (await api.get(f"/v1/sessions/{session}/turns/none")).status_code == 404
    empty = await api.post(f"/v1/sessions/{session}/messages", json={})
    assert empty.status_code == 400


async def test_a_second_message_waits_for_the_first_turn(api: httpx.AsyncClient, provider: ProviderServer) -> None:
    provider.script = by_position(says("A", Hold("second"), "B"))
    session = await new_session(api)
    refused: list[int] = []
    async for event in streamed(api, session, "Slowly."):
        if event.name == "text-delta" and not refused:
            answer = await api.post(f"/v1/sessions/{session}/messages", json={"message": "Me too."})
            refused.append(answer.status_code)
            provider.gate("second").open()
    assert refused == [409]


async def test_a_conversation_of_many_steps_continues_as_new(api: httpx.AsyncClient, provider: ProviderServer) -> None:
    steps = [says(f"{number}. ", Call("hello_world", {"name": f"n{number}"})) for number in range(12)]
    provider.script = by_position(*steps, says("End."))
    session = await new_session(api, maxSteps=30)
    seen = [event async for event in streamed(api, session, "Greet them all.")]
    assert text_of(seen) == "".join(f"{number}. " for number in range(12)) + "End."
    assert len({call["task_id"] for call in named(seen, "tool-call")}) == 12
    assert any(event.id and event.id.startswith("1.") for event in seen)


async def _run_of(api: httpx.AsyncClient, task_id: str) -> object:
    response = await api.get(f"/v1/tasks/{task_id}")
    return response.json().get("run") if response.is_success else None


async def test_a_long_session_continues_as_new(
    api: httpx.AsyncClient, service: Service, provider: ProviderServer
) -> None:
    provider.script = by_position(*(says(f"Answer {number}.") for number in range(20)))
    session = await new_session(api)
    workflow = (await connect(service.temporal_address)).get_workflow_handle(session_workflow_id("local", session))
    first_run = (await workflow.describe()).run_id
    for number in range(20):
        turn = await sent(api, session, f"Question {number}?", messageId=f"m-{number}")
        assert turn["text"] == f"Answer {number}."
    described = await workflow.describe()
    assert described.raw_description.workflow_execution_info.first_run_id == first_run != described.run_id
    assert (await sent(api, session, "Question 3?", messageId="m-3"))["text"] == "Answer 3."
    view = (await api.get(f"/v1/sessions/{session}")).json()
    assert (len(view["turns"]), view["spent"]["steps"]) == (20, 20)
