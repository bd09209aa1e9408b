"""The big table's generator and batches, without a run."""

import hashlib
import itertools
import json

import pytest

from tests.integration.actors.actor_process import actor_module

rows = actor_module("big-table", "rows")
batches = actor_module("big-table", "sink")


def first_rows(count: int, seed: int = 1, profile: str = "standard") -> list[str]:
    return list(rows.RowFactory.create(seed, profile).rows(count))


@pytest.mark.parametrize("profile", ["narrow", "standard", "wide"])
def test_the_same_seed_gives_the_same_rows(profile):
    assert first_rows(700, 5, profile) == first_rows(700, 5, profile)
    assert first_rows(700, 5, profile) != first_rows(700, 6, profile)


def test_rows_stay_the_same_from_one_version_to_the_next():
    text = "\n".join(first_rows(600, 42, "wide"))

    assert hashlib.sha256(text.encode()).hexdigest()[:32] == "e34c179278275dc913117a443b4fc891"


def test_a_short_table_is_the_beginning_of_a_long_one():
    assert first_rows(501) == first_rows(2_000)[:501]


def test_an_endless_table_begins_like_a_counted_one():
    endless = rows.RowFactory.create(1, "standard").rows(None)

    assert list(itertools.islice(endless, 1_200)) == first_rows(1_200)


@pytest.mark.parametrize("profile", ["narrow", "standard", "wide"])
def test_rows_are_json_objects_with_ids_in_order_and_optional_fields(profile):
    table = [json.loads(row) for row in first_rows(600, profile=profile)]

    assert [row["id"] for row in table] == list(range(600))
    assert len({row["url"] for row in table}) == 600
    assert 0 < sum("discountPercent" in row for row in table) < 600
    assert 0 < sum(row["rating"] is None for row in table) < 600
    assert table == sorted(table, key=lambda row: row["crawledAt"])


def test_rows_hold_text_of_many_scripts_and_nested_objects():
    table = first_rows(600)
    text = "".join(table)

    assert all(sample in text for sample in ("ø", "東京", "Київ", "🎁", '\\"', "\\t", "\\n\\n"))
    assert all(isinstance(json.loads(row)["seller"]["address"]["city"], str) for row in table)


@pytest.mark.parametrize("target_bytes", [1, 100_000, 3_000_000])
def test_a_table_by_size_ends_with_the_row_that_reaches_it(target_bytes):
    endless = rows.RowFactory.create(1, "standard").rows(None)
    gathered = list(batches.gather(endless, target_bytes, batch_bytes=500_000))
    table = [row for batch in gathered for row in json.loads(batch.body)]
    last_row_bytes = len(first_rows(len(table))[-1].encode()) + 1
    total_bytes = sum(batch.size_bytes for batch in gathered)

    assert total_bytes >= target_bytes > total_bytes - last_row_bytes
    assert [row["id"] for row in table] == list(range(sum(batch.row_count for batch in gathered)))


def test_batches_come_close_to_their_limit_and_never_go_over_it():
    gathered = list(batches.gather(first_rows(2_000), None, batch_bytes=400_000))
    sizes = [len(batch.body) for batch in gathered]

    assert all(size <= 400_000 + 1 for size in sizes)
    assert all(size > 390_000 for size in sizes[:-1])
    assert [batch.size_bytes + 1 for batch in gathered] == sizes


def test_a_row_larger_than_a_batch_goes_alone():
    assert [batch.row_count for batch in batches.gather(["1" * 50, "2", "3"], None, batch_bytes=10)] == [1, 2]


def test_no_rows_make_no_batches():
    assert list(batches.gather(first_rows(0), None)) == []
