"""The documents name every event and ending that clients of sessions meet."""

from typing import get_args

import pytest

from outlast.api.rest.session_routes import follow_session, follow_turn
from outlast.contracts.tasks import ConversationEvent, TurnEventName
from outlast.workflows.contracts.sessions import FinishReason, TurnStatus
from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "sessions.md").read_text()
SESSION_EVENTS = get_args(ConversationEvent.model_fields["name"].annotation)


@pytest.mark.parametrize("name", [*get_args(TurnEventName), *get_args(FinishReason)])
def test_the_page_names_what_happens_in_a_turn(name: str) -> None:
    assert f"`{name}`" in PAGE


def test_the_page_names_how_a_turn_ends() -> None:
    assert [status for status in TurnStatus if status is not TurnStatus.RUNNING and f"`{status}`" not in PAGE] == []


@pytest.mark.parametrize(
    ("route", "name"),
    [(follow_turn, name) for name in get_args(TurnEventName)] + [(follow_session, name) for name in SESSION_EVENTS],
)
def test_the_api_document_names_the_events_of_a_stream(route: object, name: str) -> None:
    assert f"`{name}`" in (route.__doc__ or "")
