"""Names by which others reach the workflows: recorded histories, signals by name and running tasks depend on them."""

import pytest
from temporalio import workflow
from temporalio.common import VersioningBehavior

from outlast.activities.dispatch.contracts import LOOK_SIGNAL, RELEASE_SIGNAL
from outlast.activities.failures.classify import ATTEMPTS_FAIL_SIGNAL
from outlast.worker.service import WORKFLOWS
from outlast.workflows.batches.batch import BatchWorkflow
from outlast.workflows.contracts.questions import TASK_ASKS_SIGNAL
from outlast.workflows.contracts.sessions import (
    CALL_REFUSED_SIGNAL,
    POSTED_SIGNAL,
    TASK_COMPLETED_SIGNAL,
    TURN_ENDED_SIGNAL,
)
from outlast.workflows.contracts.steps import JOURNAL_QUERY, STEP_SIGNAL
from outlast.workflows.contracts.tool_calls import RUN_STOPPED_SIGNAL
from outlast.workflows.dispatch import DispatchWorkflow, NothingToRelease
from outlast.workflows.retention import RetentionWorkflow
from outlast.workflows.schedules.firing import ScheduleFiringWorkflow
from outlast.workflows.session import SessionWorkflow
from outlast.workflows.tool_call import ToolCallWorkflow
from outlast.workflows.turn import TurnWorkflow
from outlast.workflows.versioning import behaviour_of

NAMES: dict[type, tuple[str, set[str], set[str], set[str]]] = {
    ToolCallWorkflow: (
        "ToolCallWorkflow",
        {"attempts_fail", "release", "run_stopped", "task_asks", "tool_step"},
        {"submit_input"},
        {"tool_journal"},
    ),
    SessionWorkflow: (
        "SessionWorkflow",
        {"task_completed", "call_refused", "posted", "turn_ended"},
        {"open", "begin_turn", "change_profile", "rename", "adopt", "delete"},
        {"overview", "overview_for", "events", "self_correction"},
    ),
    TurnWorkflow: ("TurnWorkflow", {"task_asks", "run_stopped"}, set(), set()),
    RetentionWorkflow: ("RetentionWorkflow", set(), set(), set()),
    DispatchWorkflow: ("DispatchWorkflow", {"look"}, set(), set()),
    NothingToRelease: ("NothingToRelease", {"release"}, set(), set()),
    BatchWorkflow: ("BatchWorkflow", set(), set(), set()),
    ScheduleFiringWorkflow: ("ScheduleFiringWorkflow", set(), set(), set()),
}


@pytest.mark.parametrize("defined", NAMES)
def test_a_workflow_keeps_its_names(defined: type) -> None:
    definition = workflow._Definition.must_from_class(defined)  # pyright: ignore[reportPrivateUsage]
    found = (definition.name, set(definition.signals), set(definition.updates), set(definition.queries))
    assert found == NAMES[defined]


PINNED = {ToolCallWorkflow, TurnWorkflow, BatchWorkflow, ScheduleFiringWorkflow}
"""Workflows that end on the version that began them. All others move to the current one with their next step."""


def test_calls_and_turns_stay_with_their_version_and_what_lives_long_moves_on() -> None:
    kept = {defined.__name__ for defined in WORKFLOWS if behaviour_of(defined.__name__) == VersioningBehavior.PINNED}
    assert kept == {defined.__name__ for defined in PINNED}


def test_signals_that_are_sent_by_name_are_handled() -> None:
    of_calls = {TASK_ASKS_SIGNAL, RUN_STOPPED_SIGNAL}
    assert NAMES[ToolCallWorkflow][1] == {ATTEMPTS_FAIL_SIGNAL, RELEASE_SIGNAL, STEP_SIGNAL, *of_calls}
    assert NAMES[ToolCallWorkflow][3] == {JOURNAL_QUERY}
    assert NAMES[NothingToRelease][1] == {RELEASE_SIGNAL}
    assert NAMES[DispatchWorkflow][1] == {LOOK_SIGNAL}
    session, turn = NAMES[SessionWorkflow][1], NAMES[TurnWorkflow][1]
    assert session == {TASK_COMPLETED_SIGNAL, CALL_REFUSED_SIGNAL, POSTED_SIGNAL, TURN_ENDED_SIGNAL}
    assert turn == of_calls
