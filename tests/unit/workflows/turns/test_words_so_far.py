"""Of an answer that was cut off, the words of the latest attempt of its step are kept, and nothing else."""

import base64
import json

from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.contrib.workflow_streams import WorkflowStreamState
from temporalio.converter import value_to_type

from outlast.activities.llm.contracts import ArgumentsDelta, TextDelta
from outlast.activities.llm.streaming import ARGUMENTS_TOPIC, DELTAS_TOPIC
from outlast.workflows.turn import words_so_far

CONVERTER = pydantic_data_converter.payload_converter


def text(step: int, attempt: int, words: str) -> tuple[str, TextDelta]:
    return DELTAS_TOPIC, TextDelta(turn_id="t", step=step, attempt=attempt, index=0, text=words)


def arguments(step: int, words: str) -> tuple[str, ArgumentsDelta]:
    delta = ArgumentsDelta(turn_id="t", step=step, attempt=1, index=0, call_id="c", tool="f", text=words)
    return ARGUMENTS_TOPIC, delta


def stream(*items: tuple[str, TextDelta | ArgumentsDelta]) -> WorkflowStreamState:
    """A stream as a workflow hands it on, with these items."""
    wire = [
        {"topic": topic, "data": base64.b64encode(CONVERTER.to_payload(delta).SerializeToString()).decode()}
        for topic, delta in items
    ]
    return value_to_type(WorkflowStreamState, json.loads(json.dumps({"log": wire})))


def test_the_words_of_the_latest_attempt_of_the_step_are_kept() -> None:
    said = stream(
        text(1, 1, "An earlier step."),
        text(2, 1, "One two"),
        text(2, 2, "One "),
        arguments(2, '{"name"'),
        text(2, 2, "three "),
    )
    assert words_so_far(said, 2, CONVERTER) == "One three "
    assert words_so_far(said, 1, CONVERTER) == "An earlier step."
    assert words_so_far(said, 3, CONVERTER) == ""
