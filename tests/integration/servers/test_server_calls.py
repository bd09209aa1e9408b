"""Calls of tools of MCP servers: the workflow and real workers with real servers, which are killed in the middle."""

import json
from contextlib import ExitStack

from temporalio.client import Client

from outlast.activities.mcp_servers import contracts as mcp
from outlast.worker.ended_runs import task_outcome
from outlast.workflows.contracts import memo
from outlast.workflows.contracts.questions import InputAnswer, InputRequests, SubmitInput
from outlast.workflows.tool_call import ToolCallWorkflow
from tests.support.eventually import eventually
from tests.support.mcp.effects_setting import SAFE, VERIFY, EffectsSetting, begun, called, listed


async def test_tools_are_listed_and_the_last_list_remains_while_the_server_is_down(
    setting: EffectsSetting, client: Client
) -> None:
    with setting.worker():
        listing = await listed(client)
        assert listing.error is None
        assert {tool.name: tool.annotated for tool in listing.tools}.items() >= {"append": False, "put": True}.items()
        assert listing.instructions == "Count the effects."
        assert await listed(client, max_age_seconds=3600) == listing
        setting.path.write_text(json.dumps({"mcpServers": {"effects": {"command": "/no/such/program"}}}))
        down = await listed(client)
        assert down.tools == listing.tools
        assert "cannot be started" in (down.error or "")
        handle = client.get_workflow_handle(mcp.server_workflow_id("effects"))
        status = await handle.query(mcp.STATUS_QUERY, result_type=mcp.ServerStatus)
        assert (status.state, status.tools) == ("down", len(listing.tools))


async def test_calls_share_the_session_of_their_key_and_large_answers_are_stored(
    setting: EffectsSetting, client: Client
) -> None:
    with setting.worker():
        texts = [(await called(client, "count", {})).result.text for _ in range(2)]
        assert texts == ["1", "2"]
        assert (await called(client, "count", {}, session="call")).result.text == "1"
        large = (await called(client, "large", {}, **SAFE)).result
        assert large.locator is not None
        assert not large.is_error


async def test_what_a_killed_server_leaves_behind(setting: EffectsSetting, client: Client) -> None:
    gate = str(setting.gate)
    with setting.worker():
        unsafe = await begun(client, "append", {"text": "a", "gate": gate}, session_key="unsafe")
        verified = await begun(client, "append", {"text": "b", "gate": gate}, session_key="verified", verify=VERIFY)
        stated = await begun(client, "put", {"text": "c", "gate": gate}, session="shared", session_key="s", **SAFE)
        await eventually(lambda: sorted(setting.lines) == ["a", "b", "c"])
        setting.kill_server()
        setting.open_gate()
        error = (await task_outcome(unsafe)).result.error
        assert error is not None
        assert error.category == "outcome_unknown"
        assert "Do not repeat the call" in (error.hint or "")
        adopted = (await task_outcome(verified)).result
        assert not adopted.is_error
        assert "it was executed" in adopted.text
        assert (await task_outcome(stated)).result.text == "did c"
        told = (await called(client, "append", {"text": "d"}, session_key="unsafe")).result.error
        assert told is not None
        assert told.category == "conflict"
        assert told.message.startswith("The session with the MCP server effects was lost")
        assert (await called(client, "append", {"text": "d"}, session_key="unsafe")).result.text == "did d"
    assert sorted(setting.lines) == ["a", "b", "c", "c", "d"]


async def test_what_a_killed_worker_leaves_behind(setting: EffectsSetting, client: Client) -> None:
    gate = str(setting.gate)
    with ExitStack() as stack:
        first = stack.enter_context(setting.worker())
        unsafe = await begun(client, "append", {"text": "a", "gate": gate})
        safe = await begun(client, "put", {"text": "b", "gate": gate}, session="shared", **SAFE)
        await eventually(lambda: sorted(setting.lines) == ["a", "b"])
        first.process.kill()
        first.process.wait()
        setting.open_gate()
        stack.enter_context(setting.worker())
        error = (await task_outcome(unsafe)).result.error
        assert error is not None
        assert error.category == "outcome_unknown"
        assert "its worker was lost" in error.message
        assert (await task_outcome(safe)).result.text == "did b"
        told = (await called(client, "append", {"text": "c"})).result.error
        assert told is not None
        assert told.category == "conflict"
        assert (await called(client, "append", {"text": "c"})).result.text == "did c"
    assert sorted(setting.lines) == ["a", "b", "b", "c"]


async def test_what_a_stopped_worker_leaves_behind(setting: EffectsSetting, client: Client) -> None:
    with ExitStack() as stack:
        first = stack.enter_context(setting.worker())
        unsafe = await begun(client, "append", {"text": "a", "gate": str(setting.gate)})
        await eventually(lambda: setting.lines == ["a"])
        first.process.terminate()
        stack.enter_context(setting.worker())
        error = (await task_outcome(unsafe)).result.error
        assert error is not None
        assert error.category == "outcome_unknown"
        assert "Its worker was stopped" in error.message
    assert setting.lines == ["a"]


async def test_a_question_of_the_server_goes_to_the_caller(setting: EffectsSetting, client: Client) -> None:
    with setting.worker():
        asking = await begun(client, "ask", {}, session="shared", **SAFE)

        async def asked() -> InputRequests | None:
            found = await (await asking.describe()).memo()
            requests = found.get(memo.INPUT_REQUESTS)
            return InputRequests.model_validate(requests) if requests and requests["requests"] else None

        questions = (await eventually(asked)).requests
        assert [question.message for question in questions.values()] == ["Who is there?"]
        answers = {key: InputAnswer(action="accept", content={"name": "Bea"}) for key in questions}
        await asking.execute_update(ToolCallWorkflow.submit_input, SubmitInput(answers=answers))
        assert "Bea" in (await task_outcome(asking)).result.text
