"""Only an outage of Temporal is reported as one: a defect of ours stays a defect."""

import pytest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from outlast.api.errors import SessionNotFound, TemporalBusy, TemporalUnavailable
from outlast.api.http.problems import error_response
from outlast.api.temporal.errors import is_outage, temporal_errors
from outlast.deploy.local.ports import any_free


async def test_a_server_that_refuses_connections_is_an_outage() -> None:
    client = await Client.connect(f"127.0.0.1:{any_free('127.0.0.1')}", lazy=True)
    with pytest.raises(TemporalUnavailable), temporal_errors():
        await client.get_workflow_handle("any").describe()


@pytest.mark.parametrize(
    "defect",
    [RecursionError("too deep"), RuntimeError("dictionary changed size during iteration"), NotImplementedError()],
)
def test_a_defect_is_raised_as_it_is(defect: RuntimeError) -> None:
    assert not is_outage(defect)
    with pytest.raises(type(defect)), temporal_errors():
        raise defect


def test_a_server_that_limits_requests_has_its_client_wait() -> None:
    with pytest.raises(TemporalBusy) as busy, temporal_errors():
        raise RPCError("busy", RPCStatusCode.RESOURCE_EXHAUSTED, b"")
    answer = error_response("/v1/schedules", busy.value)
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "5")


def test_a_query_that_no_worker_takes_is_an_outage() -> None:
    with pytest.raises(TemporalUnavailable), temporal_errors():
        raise RPCError("no poller seen for task queue recently", RPCStatusCode.FAILED_PRECONDITION, b"")
    with pytest.raises(RPCError), temporal_errors():
        raise RPCError("the workflow was reset", RPCStatusCode.FAILED_PRECONDITION, b"")


def test_a_workflow_whose_step_is_repeated_is_asked_again_later() -> None:
    with pytest.raises(TemporalUnavailable, match="is repeated"), temporal_errors():
        message = "Unable to perform workflow execution update due to Workflow Task in failed state."
        raise RPCError(message, RPCStatusCode.FAILED_PRECONDITION, b"")


def test_what_temporal_does_not_know_is_what_the_caller_says_it_is() -> None:
    with pytest.raises(SessionNotFound), temporal_errors(missing=SessionNotFound("no such session")):
        raise RPCError("not found", RPCStatusCode.NOT_FOUND, b"")


def test_what_temporal_refuses_for_another_reason_is_raised_as_it_is() -> None:
    with pytest.raises(RPCError), temporal_errors():
        raise RPCError("no", RPCStatusCode.PERMISSION_DENIED, b"")
