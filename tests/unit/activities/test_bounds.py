"""Bounds of numbers: refused in a request, read as they are from histories, and harmless in arithmetic."""

from decimal import Decimal

import pytest
from pydantic import BaseModel, ValidationError

from outlast.activities.bounds import (
    MAX_USD,
    Count,
    Usd,
    UsdFloat,
    checking_bounds,
    is_usd,
    reading_recorded,
    rounded_usd,
    usd_flaw,
    usd_text,
)
from outlast.activities.json_numbers import exact_json, number_flaws
from outlast.activities.spending.contracts import exact_usd
from outlast.worker.payloads import LeanJSONPayloadConverter
from outlast.workflows.contracts.unknown_fields import KnownFieldsOnly

NO_AMOUNTS = ("1e30", "1e400", "1e-3000", "NaN", "Infinity", "-0", "-1", "1e900000", "0", "1000000000.1", "1e-13")


class Costs(BaseModel):
    exact: Usd | None = None
    binary: UsdFloat | None = None
    rows: Count | None = None


class Request(KnownFieldsOnly):
    costs: Costs = Costs()


@pytest.mark.parametrize("amount", NO_AMOUNTS)
def test_no_amount_is_money_in_a_request(amount: str) -> None:
    for text in ('{"costs": {"exact": "%s"}}', '{"costs": {"exact": %s}}', '{"costs": {"binary": %s}}'):
        with pytest.raises(ValidationError):
            Request.model_validate_json(text % amount)


@pytest.mark.parametrize("given", [True, False, "9" * 100_000, "five", "", [], {}])
def test_what_is_no_number_is_no_money(given: object) -> None:
    for field in ("exact", "binary"):
        with pytest.raises(ValidationError):
            Request.model_validate({"costs": {field: given}})


@pytest.mark.parametrize("amount", ["0.000000000001", "1e-12", "0.1", "1000000000", "1e9", "5.000000000000000"])
def test_an_amount_is_kept_as_it_is(amount: str) -> None:
    costs = Request.model_validate({"costs": {"exact": amount}}).costs
    assert costs.exact == Decimal(amount)


def test_what_was_recorded_without_a_bound_is_read_as_it_is() -> None:
    converter = LeanJSONPayloadConverter()
    request = Request.model_construct(costs=Costs(exact=Decimal("1e400")))
    for model in (Costs(exact=Decimal("1e30"), rows=10**15), request):
        payload = converter.to_payload(model)
        assert payload is not None
        assert converter.from_payload(payload, type(model)) == model
    with checking_bounds(), pytest.raises(ValidationError):
        Costs(rows=10**15)
    with checking_bounds(), reading_recorded(), checking_bounds():
        assert Costs(rows=10**15).rows == 10**15


@pytest.mark.parametrize("amount", NO_AMOUNTS)
def test_arithmetic_and_words_take_any_amount(amount: str) -> None:
    exact = Decimal(amount)
    assert not is_usd(exact)
    assert len(usd_text(exact)) < 50
    assert usd_flaw({"budget_usd": None, "limit": exact})
    if not exact.is_nan():
        assert abs(rounded_usd(exact, Decimal("0.01"))) <= MAX_USD
        assert abs(exact_usd(exact)) <= MAX_USD


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('{"a": [1, {"b": 1e400}]}', "/a/1/b"),
        ('{"a": NaN}', "/a"),
        ("[-Infinity]", "/0"),
        ('{"a": 18446744073709551616}', "/a"),
        ('{"a": -9223372036854775809}', "/a"),
        ('{"a": 1e-3000}', "/a"),
        ('{"a": 1e900000}', "/a"),
        ('{"a/b": %s}' % ("9" * 100_000), "/a~1b"),
    ],
)
def test_a_number_that_no_parser_keeps_is_found(text: str, path: str) -> None:
    for encoding in ("utf-8", "utf-16", "utf-32"):
        assert [flaw.path for flaw in number_flaws(text.encode(encoding))] == [path]
    with pytest.raises(ValueError, match=r"cannot be stored exactly|is not a JSON number"):
        exact_json(text)


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 18446744073709551615, "b": -9223372036854775808, "c": 1e308, "d": 0e-999, "e": 2.2250738585072014e-308}',
        '{"a": "NaN", "b": "1e400", "c": "99999999999999999999999", "NaN": 1}',
        '{"a": 0.1111111111111111111111111111}',
        "[1e400",
        "",
    ],
)
def test_other_numbers_and_texts_are_left_alone(text: str) -> None:
    assert number_flaws(text.encode()) == ()
