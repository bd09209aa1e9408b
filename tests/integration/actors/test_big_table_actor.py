"""The big table, as a process."""

import pytest


def test_pushes_the_rows_asked_for(run_actor):
    run = run_actor("big-table", {"rows": 40, "seed": 3})

    assert run.exit_code == 0
    assert [row["id"] for row in run.rows] == list(range(40))
    assert run.status_messages[-1].startswith("Pushed 40/40 rows, 0.1 MB (")
    assert run.output | {"seconds": 0, "bytes": 0} == {
        "rows": 40,
        "bytes": 0,
        "seconds": 0,
        "seed": 3,
        "columns": "standard",
        "aborted": False,
    }


def test_ends_at_the_size_asked_for_or_at_the_items_paid_for(run_actor):
    input_by_size = {"targetBytes": 20_000, "columns": "narrow"}
    by_size = run_actor("big-table", input_by_size)
    paid = run_actor("big-table", input_by_size, ACTOR_MAX_PAID_DATASET_ITEMS="5")

    assert 20_000 <= by_size.output["bytes"] < 20_500
    assert len(by_size.rows) == by_size.output["rows"]
    assert paid.rows == by_size.rows[:5]


@pytest.mark.parametrize(
    ("run_input", "message"),
    [
        ({"rows": -1}, "rows must be between 0 and 1000000000, not -1"),
        ({"targetBytes": "1 GB"}, "targetBytes must be a whole number, not '1 GB'"),
        ({"columns": "huge"}, "columns must be one of narrow, standard, wide, not 'huge'"),
    ],
)
def test_refuses_a_wrong_input_with_a_reason(settings_of, run_input, message):
    settings = settings_of("big-table")
    with pytest.raises(settings.InputError, match=message):
        settings.Settings.parse(run_input)


def test_without_rows_and_size_there_are_a_thousand_rows(settings_of):
    parse = settings_of("big-table").Settings.parse

    assert parse(None).rows == 1_000
    assert parse({"targetBytes": 5}).rows is None
    assert parse({"rows": 0}).rows == 0
