"""The operator's rules inside a turn, where a model may write an Actor's name in any way."""

import pytest

from outlast.workflows.contracts.turns import CarriedRule
from outlast.workflows.turns.permissions import nameless_actor, ruling_of

DENY = CarriedRule(tool="outlast--big-table", action="deny", text="*:outlast--big-table=deny")
ASK = CarriedRule(tool="call-*", action="ask", text="*:call-*=ask")


@pytest.mark.parametrize(
    "actor", ["outlast/big-table", "outlast~big-table", "Outlast/Big-Table", " outlast/big-table "]
)
def test_an_actor_is_denied_by_its_own_name_however_it_is_called(actor: str) -> None:
    ruling = ruling_of((ASK, DENY), "call-actor", actor)
    assert ruling is not None
    assert ruling.action == "deny"


def test_an_id_does_not_pass_by_the_name() -> None:
    assert nameless_actor((DENY,), "call-actor", "aB3xYz") is not None
    assert nameless_actor((), "call-actor", "aB3xYz") is None
    assert nameless_actor((DENY,), "call-actor", "outlast/big-table:search") is None


def test_no_rule_says_nothing() -> None:
    assert ruling_of((DENY,), "hello_world", None) is None
