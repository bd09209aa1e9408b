"""The arithmetic of a spend ledger: what is held, what is spent, and what a repetition changes."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from outlast.activities.contracts import Caller, ErrorCategory
from outlast.activities.failures.classify import failure
from outlast.activities.spending.contracts import LedgerState, ReserveInput, Settlement, Spend, SpendingCaps
from outlast.activities.spending.ledger import refused_by_cap
from outlast.workflows.spending.ledger_state import MAX_BOOKED, RECENT_ENTRIES, REMEMBERED_ACTORS, Book

EVENING = datetime(2026, 11, 30, 23, 59, tzinfo=UTC)
MIDNIGHT = datetime(2026, 12, 1, tzinfo=UTC)
CALLER = Caller(id="key:ann")


def reservation(entry: str, usd: str | None = None, **caps: float) -> ReserveInput:
    amount = None if usd is None else Decimal(usd)
    return ReserveInput(spend=Spend(entry_id=entry), caller=CALLER, caps=SpendingCaps(**caps), amount_usd=amount)


def settlement(entry: str, usd: str, **spend: Any) -> Settlement:
    return Settlement(spend=Spend(entry_id=entry, **spend), cost_usd=Decimal(usd))


def test_what_is_held_is_not_given_twice_and_what_is_settled_counts_once() -> None:
    book = Book(LedgerState(caller_id="key:ann"), EVENING)
    assert book.reserve(reservation("a", "0.6", per_day_usd=1), EVENING).granted_usd == Decimal("0.6")
    refused = book.reserve(reservation("b", "0.5", per_day_usd=1), EVENING).refusal
    assert refused is not None
    assert (refused.cap, refused.left_usd, refused.resets_at) == (
        "day",
        Decimal("0.4"),
        datetime(2026, 12, 1, tzinfo=UTC),
    )
    # An attempt that is repeated gets what it got, also when the cap is lower by now.
    assert book.reserve(reservation("a", "0.6", per_day_usd=0.1), EVENING).granted_usd == Decimal("0.6")
    assert book.reserve(reservation("c", per_day_usd=1), EVENING).granted_usd == Decimal("0.4")
    assert [book.settle(settlement("a", "0.25"), EVENING) for _ in range(2)] == [True, False]
    book.release("c")
    overview = book.overview(EVENING)
    assert (overview.day.spent_usd, overview.reserved_usd, len(overview.records)) == (Decimal("0.25"), 0, 1)
    # After the workflow has continued as new, too.
    book = Book(LedgerState.model_validate_json(book.state().model_dump_json()), EVENING)
    assert not book.settle(settlement("a", "0.25"), EVENING)
    assert book.overview(EVENING) == overview


def test_the_other_reservations_stay_when_one_is_released_and_when_the_ledger_continues_as_new() -> None:
    book = Book(LedgerState(caller_id="key:ann"), EVENING)
    for entry, usd in (("a", "0.2"), ("b", "0.3"), ("c", "0.4")):
        book.reserve(reservation(entry, usd, per_day_usd=1), EVENING)
    book.release("b")
    for ledger in (book, Book(LedgerState.model_validate_json(book.state().model_dump_json()), EVENING)):
        assert {entry: held.amount_usd for entry, held in ledger.open.items()} == {
            "a": Decimal("0.2"),
            "c": Decimal("0.4"),
        }
        refused = ledger.reserve(reservation("d", "0.5", per_day_usd=1), EVENING).refusal
        assert refused is not None
        assert (refused.reserved_usd, refused.left_usd) == (Decimal("0.6"), Decimal("0.4"))


def test_a_reservation_that_is_released_is_free_and_its_entry_can_still_be_booked() -> None:
    """A run that was taken for one that had never started has cost something after all."""
    book = Book(LedgerState(caller_id="key:ann"), EVENING)
    book.reserve(reservation("a", "0.6", per_day_usd=1), EVENING)
    book.release("a")
    book.release("unknown")
    assert book.reserve(reservation("b", "0.9", per_day_usd=1), EVENING).granted_usd == Decimal("0.9")
    assert book.settle(settlement("a", "0.1"), EVENING)
    assert book.overview(EVENING).day.spent_usd == Decimal("0.1")
    assert book.overview(EVENING).reservations == 1


def test_a_repeated_settlement_books_nothing_and_still_frees_what_is_reserved() -> None:
    """An attempt that was given up reserves again, after another one has booked the run."""
    book = Book(LedgerState(caller_id="key:ann"), EVENING)
    book.settle(settlement("a", "0.2"), EVENING)
    book.reserve(reservation("a", "0.6", per_day_usd=1), EVENING)
    assert not book.settle(settlement("a", "0.2"), EVENING)
    overview = book.overview(EVENING)
    assert (overview.day.spent_usd, overview.reserved_usd, overview.reservations) == (Decimal("0.2"), 0, 0)


def test_a_request_that_only_wants_to_know_holds_nothing() -> None:
    book = Book(LedgerState(caller_id="key:ann"), EVENING)
    request = reservation("a", "0.6", per_day_usd=1).model_copy(update={"hold": False})
    assert book.reserve(request, EVENING).granted_usd == Decimal("0.6")
    assert book.overview(EVENING).reservations == 0
    assert book.reserve(reservation("b", "0.5", per_day_usd=1), EVENING).refusal is None
    assert book.reserve(request, EVENING).refusal is not None


def test_reservations_of_an_age_are_those_from_then_and_before() -> None:
    book = Book(LedgerState(caller_id="key:ann"), EVENING)
    for seconds in (0, 1, 2):
        book.reserve(reservation(f"e{seconds}", "0.1", per_day_usd=1), EVENING + timedelta(seconds=seconds))
    found = book.open_since(EVENING + timedelta(seconds=1))
    assert [entry.spend.entry_id for entry in found] == ["e0", "e1"]


def test_a_monthly_refusal_counts_what_is_reserved_and_names_the_first_of_the_next_month() -> None:
    middle = datetime(2026, 12, 10, 12, 30, tzinfo=UTC)
    book = Book(LedgerState(caller_id="key:ann"), middle)
    book.settle(settlement("a", "0.2"), middle)
    book.reserve(reservation("b", "0.5", per_month_usd=1), middle)
    refused = book.reserve(reservation("c", "0.4", per_month_usd=1), middle).refusal
    assert refused is not None
    assert (refused.cap, refused.spent_usd, refused.reserved_usd, refused.left_usd) == (
        "month",
        Decimal("0.2"),
        Decimal("0.5"),
        Decimal("0.3"),
    )
    assert refused.resets_at == datetime(2027, 1, 1, tzinfo=UTC)


def test_records_that_are_stored_are_dropped_and_later_ones_go_into_the_next_bundle() -> None:
    book = Book(LedgerState(caller_id="key:ann"), EVENING)
    for number in range(5):
        book.settle(settlement(f"e{number}", "0.1"), EVENING)
    assert book.bundle == 0
    book.forget(3)
    assert [record.spend.entry_id for record in book.records] == ["e3", "e4"]
    assert book.bundle == 1
    book = Book(LedgerState.model_validate_json(book.state().model_dump_json()), EVENING)
    book.forget(2)
    assert (book.records, book.bundle) == ([], 2)


def test_a_cap_that_is_used_up_to_the_cent_leaves_nothing() -> None:
    book = Book(LedgerState(caller_id="key:ann"), EVENING)
    book.settle(settlement("a", "1"), EVENING)
    assert book.reserve(reservation("b", per_day_usd=1), EVENING).refusal is not None
    assert book.reserve(reservation("c", per_day_usd=1.01), EVENING).granted_usd == Decimal("0.01")


def test_a_cap_per_task_is_about_all_runs_of_the_task() -> None:
    book = Book(LedgerState(caller_id="key:ann"), EVENING)
    second = reservation("b", per_task_usd=1).model_copy(update={"task_spent_usd": Decimal("0.7")})
    assert book.reserve(second, EVENING).granted_usd == Decimal("0.3")
    third = reservation("c", "0.1", per_task_usd=1).model_copy(update={"task_spent_usd": Decimal("0.95")})
    refused = book.reserve(third, EVENING).refusal
    assert refused is not None
    assert (refused.cap, refused.left_usd, refused.resets_at) == ("task", Decimal("0.05"), None)


def test_days_and_months_begin_anew_and_reservations_stay() -> None:
    book = Book(LedgerState(caller_id="key:ann"), EVENING)
    book.settle(settlement("a", "0.9"), EVENING)
    assert book.reserve(reservation("b", "0.1", per_day_usd=1, per_month_usd=2), EVENING).refusal is None
    morning = EVENING + timedelta(minutes=2)
    granted = book.reserve(reservation("c", per_day_usd=1, per_month_usd=2), morning).granted_usd
    assert granted == Decimal("0.9"), "yesterday's cost is gone, the reservation of a run that goes on is not"
    assert book.overview(morning).month.spent_usd == 0


def test_payments_that_come_with_a_call_are_listed_and_count_for_no_cap() -> None:
    book = Book(LedgerState(caller_id="key:ann"), EVENING)
    book.settle(settlement("a", "5", payer="payment"), EVENING)
    overview = book.overview(EVENING)
    assert (overview.day.spent_usd, overview.records[0].cost_usd) == (0, Decimal(5))


def test_a_ledger_remembers_a_bounded_number_of_entries() -> None:
    book = Book(LedgerState(caller_id="key:ann"), EVENING)
    for number in range(RECENT_ENTRIES + 10):
        book.settle(settlement(f"e{number}", "0"), EVENING)
    assert len(book.state().recent) == RECENT_ENTRIES
    assert not book.settle(settlement(f"e{RECENT_ENTRIES}", "0"), EVENING)


def test_a_correction_is_booked_once_and_changes_the_total_by_the_difference() -> None:
    book = Book(LedgerState(caller_id="key:ann"), EVENING)
    for entry, usd in (("a", "1"), ("b", "2"), ("model", "5")):
        run_id = None if entry == "model" else f"run-{entry}"
        book.settle(settlement(entry, usd).model_copy(update={"run_id": run_id}), EVENING)
    assert [run.run_id for run in book.booked_since(EVENING)] == ["run-a", "run-b"]
    assert book.booked_since(EVENING - timedelta(seconds=1)) == ()
    book = Book(LedgerState.model_validate_json(book.state().model_dump_json()), EVENING)
    difference = book.correct("a", Decimal("0.25"), EVENING)
    assert difference is not None
    assert (difference.cost_usd, difference.spend.kind, difference.run_id) == (Decimal("-0.75"), "correction", "run-a")
    assert [book.correct("a", Decimal(9), EVENING), book.correct("b", Decimal(2), EVENING)] == [None, None]
    overview = book.overview(EVENING)
    assert (overview.day.spent_usd, len(overview.records), book.booked) == (Decimal("7.25"), 4, {})
    # What is taken back of yesterday's money leaves today no more than its cap.
    book.settle(settlement("c", "1").model_copy(update={"run_id": "run-c"}), EVENING)
    book.correct("c", Decimal(0), MIDNIGHT)
    assert (book.overview(MIDNIGHT).day.spent_usd, book.overview(MIDNIGHT).month.spent_usd) == (0, 0)


def test_only_the_latest_runs_are_looked_at_again() -> None:
    book = Book(LedgerState(caller_id="key:ann"), EVENING)
    for number in range(MAX_BOOKED + 1):
        book.settle(settlement(str(number), "1").model_copy(update={"run_id": f"run-{number}"}), EVENING)
    assert ("0" in book.booked, len(book.booked)) == (False, MAX_BOOKED)
    book.give_up(EVENING)
    assert not book.booked


def test_a_cap_of_which_nine_tenths_are_spent_is_near_and_one_that_is_only_reserved_is_not() -> None:
    book = Book(LedgerState(caller_id="key:ann"), EVENING)
    request = reservation("b", None, per_day_usd=1, per_month_usd=10)
    book.reserve(reservation("a", "0.95", per_day_usd=1), EVENING)
    assert book.near_caps(request) == ()
    book.settle(settlement("a", "0.9"), EVENING)
    assert book.near_caps(request) == ("day",)


def test_charges_that_cannot_be_read_for_long_are_given_up_and_counted() -> None:
    book = Book(LedgerState(caller_id="key:ann"), EVENING)
    entries = (("a", EVENING), ("b", EVENING + timedelta(hours=20)))
    for entry, at in entries:
        book.settle(settlement(entry, "1").model_copy(update={"run_id": entry}), at)
    assert [book.give_up(EVENING + timedelta(hours=1)) for _ in range(2)] == [1, 0]
    assert book.booked.keys() == {"b"}


def test_a_monthly_limit_counts_from_the_first_day_and_not_from_the_last_midnight() -> None:
    evening = datetime(2026, 12, 10, 23, 59, tzinfo=UTC)
    book = Book(LedgerState(caller_id="key:ann"), evening)
    book.settle(settlement("a", "0.9"), evening)
    for days in range(1, 22):
        later = evening + timedelta(days=days)
        refused = book.reserve(reservation(f"b{days}", "0.2", per_month_usd=1), later).refusal
        assert refused is not None, later
        assert (refused.cap, refused.left_usd) == ("month", Decimal("0.1"))
        assert book.overview(later).month.spent_usd == Decimal("0.9")
        assert book.overview(later).day.spent_usd == 0
    new_year = datetime(2027, 1, 1, 0, 1, tzinfo=UTC)
    assert book.reserve(reservation("c", "0.2", per_month_usd=1), new_year).refusal is None


def ended_runs(book: Book, *costs: str, actor: str = "user/name") -> None:
    for number, cost in enumerate(costs):
        entry = settlement(f"{actor} {number} {cost}", cost, actor=actor).model_copy(update={"run_id": f"run-{number}"})
        assert book.settle(entry, EVENING)


def unlimited(entry: str, *, actor: str = "user/name", actor_usd: str | None = None, **caps: float) -> ReserveInput:
    """A reservation for a call without a budget."""
    most = Decimal(actor_usd) if actor_usd is not None else None
    spend = Spend(entry_id=entry, actor=actor)
    return ReserveInput(spend=spend, caller=CALLER, caps=SpendingCaps(**caps), actor_usd=most)


@pytest.mark.parametrize(
    ("costs", "actor_usd", "granted", "basis"),
    [
        ((), None, "20", "caps"),
        (("0.2", "0.3"), None, "19.5", "caps"),  # two runs say little
        (("0.2", "0.3", "0.1"), None, "1.5", "history"),
        (("0.0001", "0", "0.002"), None, "0.05", "history"),
        (("5", "0.1", "0.1"), None, "14.8", "caps"),
        ((), "2.5", "2.5", "actor"),
        (("0.2", "0.3", "0.1"), "0.5", "0.5", "actor"),
        (("0.2", "0.3", "0.1"), "3", "1.5", "history"),
        ((), "30", "20", "caps"),
    ],
)
def test_a_call_without_a_budget_reserves_no_more_than_its_run_is_likely_to_cost(
    costs: tuple[str, ...], actor_usd: str | None, granted: str, basis: str
) -> None:
    book = Book(LedgerState(caller_id="key:ann"), EVENING)
    ended_runs(book, *costs)
    book = Book(LedgerState.model_validate_json(book.state().model_dump_json()), EVENING)
    answer = book.reserve(unlimited("a", actor_usd=actor_usd, per_day_usd=20), EVENING)
    assert (answer.granted_usd, answer.basis) == (Decimal(granted), basis)
    assert book.reserve(unlimited("a", per_day_usd=20), EVENING) == answer, "a repeated request gets the same"


def test_only_the_latest_runs_of_the_same_actor_count() -> None:
    book = Book(LedgerState(caller_id="key:ann"), EVENING)
    ended_runs(book, "3", *(["0.1"] * 19))
    ended_runs(book, "4", "4", "4", actor="user/dear")
    assert book.reserve(unlimited("a", per_day_usd=100), EVENING).granted_usd == 15
    ended_runs(book, "0.2")
    assert book.reserve(unlimited("b", per_day_usd=100), EVENING).granted_usd == 1
    assert book.reserve(unlimited("c", actor="user/dear", per_day_usd=100), EVENING).granted_usd == 20
    assert book.reserve(unlimited("d", actor="user/other", per_day_usd=100), EVENING).basis == "caps"


def test_the_costs_of_the_actors_that_ran_last_are_remembered() -> None:
    book = Book(LedgerState(caller_id="key:ann"), EVENING)
    costs = ("0.1", "0.1", "0.1")
    ended_runs(book, *costs, actor="user/often")
    for number in range(REMEMBERED_ACTORS - 1):
        ended_runs(book, *costs, actor=f"user/{number}")
    ended_runs(book, "0.2", actor="user/often")
    ended_runs(book, *costs, actor="user/new")
    assert len(book.state().run_costs) == REMEMBERED_ACTORS
    bases: list[str | None] = []
    for name in ("often", "0", "1", "new"):
        request = unlimited("a", actor=f"user/{name}", per_day_usd=100).model_copy(update={"hold": False})
        bases.append(book.reserve(request, EVENING).basis)
    assert bases == ["history", "caps", "history", "history"]


def test_a_ledger_of_an_older_version_reserves_the_rest() -> None:
    """So that its history replays: what was granted before is granted again."""
    book = Book(LedgerState(caller_id="key:ann"), EVENING)
    ended_runs(book, "0.2", "0.3", "0.1")
    answer = book.reserve(unlimited("a", actor_usd="1", per_day_usd=20), EVENING, by_history=False)
    assert (answer.granted_usd, answer.basis) == (Decimal("19.4"), None)


@pytest.mark.parametrize(
    ("spent", "held", "asked", "may_pass"),
    [
        ("0", "1", None, True),
        ("0", "0.9", "0.5", True),
        ("0.6", "0.4", "0.5", False),  # as much will not be left today
        ("1", None, None, False),
        ("0", None, "2", False),
        ("0.999", "0.001", None, True),
    ],
)
def test_a_refusal_may_pass_if_only_reservations_are_in_the_way(
    spent: str, held: str | None, asked: str | None, may_pass: bool
) -> None:
    book = Book(LedgerState(caller_id="key:ann"), EVENING)
    book.settle(settlement("spent", spent), EVENING)
    if held is not None:
        assert book.reserve(reservation("held", held, per_day_usd=1), EVENING).refusal is None
    refusal = book.reserve(reservation("a", asked, per_day_usd=1), EVENING).refusal
    assert refusal is not None
    assert refusal.may_pass is may_pass
    envelope = refused_by_cap(refusal)
    assert (envelope.category, envelope.retryable) == (ErrorCategory.PAYMENT, may_pass)
    assert failure(envelope).non_retryable, "Temporal repeats no start that was refused for money"


def test_a_clock_that_goes_back_over_midnight_gives_no_new_day() -> None:
    book = Book(LedgerState(caller_id="key:ann"), MIDNIGHT)
    book.settle(settlement("a", "0.5"), MIDNIGHT)
    for cap in ("per_day_usd", "per_month_usd"):
        assert book.reserve(reservation("b", "0.6", **{cap: 1}), EVENING).refusal is not None
    assert book.overview(MIDNIGHT).day.spent_usd == Decimal("0.5")
