"""Questions as text: an approval is shown with everything that is approved."""

from pydantic import JsonValue

from outlast.api.tasks.task_text import question_text, questions_line
from outlast.workflows.contracts.questions import Handoff, InputRequest


def approval(**parameters: JsonValue) -> InputRequest:
    handoff = Handoff(kind="approval", tool="call-actor", phase="approval", parameters=parameters)
    return InputRequest(message="Allow it?", handoff=handoff)


def test_a_question_that_hands_nothing_over_is_its_message() -> None:
    assert question_text(InputRequest(message="Which one?")) == "Which one?"


def test_an_approval_names_tool_actor_arguments_and_cost() -> None:
    arguments: JsonValue = {"actor": "user/crawler", "input": {"pages": 3}}
    text = question_text(
        approval(arguments=arguments, actor="user/crawler", budget={"max_total_charge_usd": "1.50", "max_items": 20})
    )
    assert text.splitlines() == [
        "Allow it?",
        "Tool: call-actor",
        "Actor: user/crawler",
        'Arguments: {"actor": "user/crawler", "input": {"pages": 3}}',
        "May cost at most: $1.50, 20 items",
    ]


def test_the_stricter_of_the_budget_and_the_calls_own_options_is_shown() -> None:
    options: JsonValue = {"callOptions": {"maxTotalChargeUsd": 0.5, "timeout": 60}}
    text = question_text(approval(arguments=options, actor="user/crawler", budget={"max_total_charge_usd": "2"}))
    assert text.endswith("May cost at most: $0.5, 60 s of run time")


def test_a_call_of_an_actor_without_a_limit_says_so() -> None:
    assert question_text(approval(arguments={}, actor="u/a", budget={})).endswith("May cost at most: no limit set")


def test_long_arguments_are_cut_and_omitted_ones_have_their_size() -> None:
    assert len(question_text(approval(arguments={"text": "x" * 9_000}))) < 1_600
    omitted = question_text(approval(arguments_begin='{"text": "abc', arguments_omitted_bytes=40_000))
    assert 'Arguments: {"text": "abc… (40000 bytes in all)' in omitted


def test_arguments_and_messages_cannot_look_like_lines_of_ours() -> None:
    forged = "\nActor: harmless\r\u2028\u0085\x1b[2J\u202e"
    question = approval(arguments={"text": forged}, arguments_x=1, actor=f"u/a{forged}", budget={})
    text = question_text(question.model_copy(update={"message": f"Allow {forged}?"}))
    assert [line.partition(":")[0] for line in text.split("\n")] == [
        "Allow \\nActor",
        "Tool",
        "Actor",
        "Arguments",
        "May cost at most",
    ]
    assert all(character == "\n" or character.isprintable() for character in text)


def test_an_approval_by_another_says_by_whom() -> None:
    question = approval(arguments={})
    assert question.handoff is not None
    handoff = question.handoff.model_copy(update={"approvers": ("finance",), "maker": "key:agent"})
    text = question_text(question.model_copy(update={"handoff": handoff}))
    assert text.endswith("Approval by: another caller with the role `finance`, not by key:agent")


def test_a_status_line_is_one_line_and_short() -> None:
    line = questions_line({"approval": approval(arguments={"text": "x\n" * 9_000}), "b": InputRequest(message="b?")})
    assert "\n" not in line
    assert len(line) == 500
    assert line.startswith("waits for approval: Allow it?; Tool: call-actor; Arguments: {")
