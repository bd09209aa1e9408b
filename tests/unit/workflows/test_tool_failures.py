"""The errors of calls whose tool raises an exception, or does not end in its time."""

import pytest
from pydantic import BaseModel
from temporalio.exceptions import ActivityError, TimeoutType
from temporalio.exceptions import TimeoutError as ActivityTimeoutError

from outlast.workflows.handler_api.failures import defect, envelope_of
from outlast.workflows.tools.framework.middleware import InvalidOutput


class Weather(BaseModel):
    degrees: float


class Unreadable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def raised(error: Exception) -> Exception:
    with pytest.raises(type(error)) as caught:
        raise error
    return caught.value


def message(error: BaseException, caller_id: str = "local") -> str:
    return defect(error, tool="t", task_id="task-1", caller_id=caller_id).message


def test_the_operator_on_this_machine_reads_the_line_the_type_and_the_message() -> None:
    text = message(raised(KeyError("b")))
    assert text.startswith(f"The tool failed in {__file__}:")
    assert text.endswith(": KeyError: 'b'")


@pytest.mark.parametrize("caller_id", ["key:local", "jwt:local", "apify:local"])
def test_others_read_that_it_failed_and_where_the_operator_looks(caller_id: str) -> None:
    envelope = defect(raised(KeyError("hunter2")), tool="t", task_id="task-1", caller_id=caller_id)
    assert envelope.message == "The tool failed: its code raised an error."
    assert envelope.hint == "Report it to the operators with the task's id, task-1: the worker's log has the cause."


def test_no_credential_is_shown_to_anybody() -> None:
    assert "hunter2" not in message(raised(RuntimeError("refused: password=hunter2hunter2")))


def test_a_value_that_does_not_fit_a_model_is_named_by_its_place_and_not_quoted() -> None:
    with pytest.raises(ValueError, match="degrees") as caught:
        Weather.model_validate({"degrees": "hunter2"})
    text = message(caught.value)
    assert "ValidationError: Weather.degrees: Input should be a valid number" in text
    assert "hunter2" not in text


def test_an_exception_may_have_no_text_and_no_place_in_the_authors_code() -> None:
    assert message(Unreadable()) == "The tool failed: Unreadable"
    assert message(InvalidOutput("t", ())).startswith("The tool failed: InvalidOutput: t does not keep to")


@pytest.mark.parametrize("kind", TimeoutType)
def test_a_timeout_names_the_tool_and_no_part_of_outlast(kind: TimeoutType) -> None:
    error = ActivityError(
        "timed out", scheduled_event_id=1, started_event_id=2, identity="", activity_type="run_plain_function",
        activity_id="1", retry_state=None,
    )  # fmt: skip
    error.__cause__ = ActivityTimeoutError("timed out", type=kind, last_heartbeat_details=[])
    envelope = envelope_of(error, tool="slow")
    assert envelope.message.startswith("slow ")
    assert "run_plain_function" not in envelope.message
    assert envelope.hint
