"""What the command line says of a batch, as the client takes it."""

from pathlib import Path
from typing import Any

import pytest

from outlast.cli.commands.batch_actions import Asked, Changes, ItemLimits, Reusing, Source, progress_line, state_line
from outlast.cli.errors import BadInput
from outlast.client import Batch

NO_LIMITS = ItemLimits(None, None, None, None)


def source(**given: Any) -> Source:
    fields: dict[str, Any] = {
        "file": Path("items.jsonl"),
        "output": None,
        "dataset": None,
        "mapping": (),
        "key": None,
        "delimiter": None,
    }
    return Source(**{**fields, **given})


def asked(changes: Changes, retries: tuple[str, ...] = (), **given: Any) -> dict[str, Any]:
    reusing = given.pop("reusing", Reusing())
    options = Asked("t", source(**given), (), NO_LIMITS, changes, retries, None, None, None, reusing).options()
    return {name: value for name, value in options.items() if value is not None}


def test_answers_are_reused_or_refreshed_as_asked() -> None:
    assert asked(Changes(None, None, ()), reusing=Reusing("6h"))["reuse"] == "6h"
    assert asked(Changes(None, None, ()), reusing=Reusing(refresh=True))["refresh"] is True


def test_options_are_those_of_the_client() -> None:
    changes = Changes(25, 20.0, ("failures=3", "failure_share=0.5", "categories=timeout, payment", "under_way=cancel"))
    found = asked(changes, ("rate_limit=3",), mapping=("input.url=page",), key="page", delimiter="tab")
    assert found == {
        "concurrency": 25,
        "budget_usd": 20.0,
        "stop": {"failures": 3, "failure_share": 0.5, "categories": ["timeout", "payment"], "under_way": "cancel"},
        "retries": {"rate_limit": 3},
        "mapping": {"input.url": "page"},
        "key": "page",
        "delimiter": "\t",
    }


@pytest.mark.parametrize(
    ("stop", "retries", "mapping"),
    [
        (("failures",), (), ()),
        (("failures=many",), (), ()),
        (("failure_share=x",), (), ()),
        (("faliures=3",), (), ()),
        ((), ("rate_limit",), ()),
        ((), ("rate_limit=x",), ()),
        ((), (), ("page",)),
        ((), (), ("=page",)),
    ],
)
def test_what_cannot_be_read_is_named(
    stop: tuple[str, ...], retries: tuple[str, ...], mapping: tuple[str, ...]
) -> None:
    with pytest.raises(BadInput):
        asked(Changes(None, None, stop), retries, mapping=mapping)


@pytest.mark.parametrize("given", [{"file": None}, {"output": "out_x"}, {"file": None, "output": "o", "dataset": "d"}])
def test_a_batch_has_one_source_of_items(given: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        source(**given).check()
    source().check()


def batch(**fields: Any) -> Batch:
    told = {"id": "batch-1", "tool": "t", "status": "working", "created_at": "2026-01-01T00:00:00Z", "results": "out_x"}
    return Batch.model_validate({**told, "total": 1_200, **fields})


def test_progress_is_told_in_one_line() -> None:
    working = batch(
        completed=300, failed=2, under_way=25, per_minute=120.0, seconds_left=449.0, cost_usd=1.5, budget_usd=20
    )
    assert progress_line(working) == (
        "302 of 1,200 items, 2 failed, 25 under way, 120 a minute, 7 min 29 s left, $1.50 of $20.00"
    )
    assert progress_line(batch()) == "0 of 1,200 items"


def test_the_end_says_why() -> None:
    ended = batch(status="stopped", completed=3, failed=1, waiting=1_196, status_message="Stopped: enough.")
    line = state_line(ended)
    assert "3 completed, 1 failed, 1,196 not started" in line
    assert line.endswith("Stopped: enough.")
