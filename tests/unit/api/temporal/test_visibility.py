"""Lists are scoped to their caller by the query itself, and a page token goes on with its own list only."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.api.errors import BadRequest
from outlast.api.temporal.visibility import list_query, read_page_token, write_page_token
from outlast.contracts.tasks import TaskListing
from outlast.workflows.contracts.sessions import session_workflow_id


def query(caller: str | None = "key:alice", **filters: object) -> str:
    return list_query(caller, TaskListing.model_validate(filters))


def test_every_filter_narrows_the_callers_own_tasks() -> None:
    text = query(status=["working"], tool="call-actor", session_id="s1", batch_id="b1", schedule_id="nightly")
    assert text == (
        "WorkflowType = 'ToolCallWorkflow' AND OutlastCaller IN ('key:alice', 'key:alice')"
        " AND (OutlastTaskStatus = 'working' AND ExecutionStatus = 'Running')"
        " AND OutlastTool = 'call-actor' AND OutlastSession = 's1'"
        " AND OutlastBatch = 'b1' AND OutlastSchedule = 'nightly'"
    )


def test_a_task_whose_workflow_was_terminated_counts_as_failed() -> None:
    assert "ExecutionStatus IN ('Failed', 'Terminated', 'TimedOut')" in query(status=["failed"])


@pytest.mark.parametrize("value", ["nul\x00byte", "line\nbreak", "\x1b[0m", "\u2028"])
def test_a_value_with_control_characters_is_refused(value: str) -> None:
    for filters in ({"tool": value}, {"session_id": value}):
        with pytest.raises(BadRequest, match="No task has"):
            query(**filters)


@given(st.text(max_size=128).filter(str.isprintable))
def test_no_value_breaks_out_of_its_quotes(value: str) -> None:
    quoted = query(tool=value).partition("OutlastTool = ")[2]
    assert quoted[0] == quoted[-1] == "'"
    inner = quoted[1:-1].replace("\\\\", "").replace("\\'", "")
    assert "'" not in inner
    assert not inner.endswith("\\")


@given(st.binary(max_size=200))
def test_a_page_token_is_read_back_for_its_own_list(token: bytes) -> None:
    assert read_page_token(write_page_token(token, query()), query()) == token


@pytest.mark.parametrize("other", [query("key:bob"), query(tool="call-actor"), query(status=["failed"])])
def test_a_page_token_of_another_list_is_refused(other: str) -> None:
    with pytest.raises(BadRequest, match="another list"):
        read_page_token(write_page_token(b"next", other), query())


def test_a_page_token_that_was_changed_is_refused() -> None:
    token = write_page_token(b"where to go on", query())
    for position in range(len(token)):
        changed = token[:position] + ("A" if token[position] != "A" else "B") + token[position + 1 :]
        with pytest.raises(BadRequest):
            read_page_token(changed, query())


@pytest.mark.parametrize("text", ["x", "é", "not a token", "====", base64.urlsafe_b64encode(b"short").decode()])
def test_what_is_no_page_token_is_refused(text: str) -> None:
    with pytest.raises(BadRequest):
        read_page_token(text, query())


_ACCOUNT = st.text("abcXYZ019", min_size=1, max_size=20)
_CALLER = st.one_of(
    st.just("local"),
    st.builds("apify:{}".format, _ACCOUNT),
    st.builds("key:{}".format, st.text("aZ9_.@- é", min_size=1)),
)
_SESSION = st.text("aZ9_.:@-", min_size=1, max_size=20)


@given(_CALLER, _SESSION, _CALLER, _SESSION)
def test_sessions_of_different_callers_never_meet(one: str, its: str, other: str, others: str) -> None:
    same = (one, its) == (other, others)
    assert (session_workflow_id(one, its) == session_workflow_id(other, others)) is same
