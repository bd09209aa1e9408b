"""Flags and texts of `outlast batch`."""

from pathlib import Path
from typing import Annotated, Any, get_args

import pytest
from typer.main import get_command
from typer.models import OptionInfo

from outlast.cli.commands.batch import check_source, progress_line, state_line
from outlast.cli.main import command_line
from outlast.cli.options import BadInput, flags_of, read_flags
from outlast.client import Batch
from outlast.contracts.options import BatchOptions, CallOptions, Option, SavedCallOptions, SharedOptions, options_of


def test_flags_become_options_of_the_client() -> None:
    stop = ["failures=3", "failure_share=0.5", "categories=timeout, payment", "under_way=cancel"]
    given = {"concurrency": 25, "stop": stop, "retries": ["rate_limit=3"], "mapping": ["input.url=page"], "key": "page"}
    assert read_flags({**given, "refresh": None, "until": []}) == {
        "concurrency": 25,
        "stop": {"failures": 3, "failure_share": 0.5, "categories": ["timeout", "payment"], "under_way": "cancel"},
        "retries": {"rate_limit": 3},
        "mapping": {"input.url": "page"},
        "key": "page",
    }


def test_every_option_with_a_flag_is_a_flag_of_its_commands() -> None:
    """A throw-away option of one kind is found here without another change."""

    class Extended(SharedOptions, total=False):
        label: Annotated[str | None, Option("A label.", wire="options.label", flag="--label", metavar="TEXT")]

    (declared,) = [part for part in get_args(flags_of(Extended)["label"].annotation) if isinstance(part, OptionInfo)]
    assert (declared.help, declared.metavar) == ("A label.", "TEXT")
    root = get_command(command_line())
    for path, kind in (
        (("call",), CallOptions),
        (("batch", "run"), BatchOptions),
        (("saved", "set"), SavedCallOptions),
        (("schedules", "create"), SharedOptions),
        (("schedules", "update"), SharedOptions),
    ):
        command: Any = root
        for name in path:
            command = command.commands[name]
        offered = {flag for parameter in command.params for flag in parameter.opts}
        assert {option.flag for option in options_of(kind).values() if option.flag} - offered == set(), path


@pytest.mark.parametrize(
    "given",
    [
        {"stop": ["failures"]},
        {"stop": ["failures=many"]},
        {"stop": ["failure_share=x"]},
        {"stop": ["faliures=3"]},
        {"retries": ["rate_limit"]},
        {"retries": ["rate_limit=x"]},
        {"mapping": ["page"]},
        {"mapping": ["=page"]},
        {"webhooks": ["https://example.com"]},
    ],
)
def test_what_cannot_be_read_is_named(given: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        read_flags(given)


@pytest.mark.parametrize(
    ("file", "output", "dataset"), [(None, None, None), ("items.jsonl", "out_x", None), (None, "o", "d")]
)
def test_a_batch_has_one_source_of_items(file: str | None, output: str | None, dataset: str | None) -> None:
    with pytest.raises(BadInput):
        check_source(Path(file) if file else None, output, dataset)
    check_source(Path("items.jsonl"), None, None)


def batch(**fields: Any) -> Batch:
    told = {"id": "batch-1", "tool": "t", "status": "working", "created_at": "2026-01-01T00:00:00Z", "results": "out_x"}
    return Batch.model_validate({**told, "total": 1_200, **fields})


def test_progress_is_told_in_one_line() -> None:
    working = batch(
        completed=300, failed=2, under_way=25, per_minute=120.0, seconds_left=449.0, cost_usd=1.5, budget_usd=20
    )
    assert progress_line(working) == (
        "302 of 1,200 items, 2 failed, 25 running, 120 a minute, 7 min 29 s left, $1.50 of $20.00"
    )
    assert progress_line(batch()) == "0 of 1,200 items"


def test_the_end_says_why() -> None:
    ended = batch(status="stopped", completed=3, failed=1, waiting=1_196, status_message="Stopped: enough.")
    line = state_line(ended)
    assert "3 completed, 1 failed, 1,196 not started" in line
    assert line.endswith("Stopped: enough.")
