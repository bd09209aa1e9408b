"""Bounds of the numbers that callers send: money, counts, sizes and durations. They hold while a request, a policy file
or a setting is read (`checking_bounds`), and are in the published JSON Schema. Recorded numbers from before there was a
bound are read unchanged, and the arithmetic here accepts them.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from decimal import Decimal
from typing import Annotated, Any, LiteralString

from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, PydanticKnownError, core_schema

MAX_LOCATOR_CHARS = 64
"""Length of the locator of a stored output."""
MAX_USD = Decimal(1_000_000_000)
USD_DECIMALS = 12
MAX_COUNT = 1_000_000_000
"""Items, rows, failures: more than any dataset has."""
MAX_TOKENS = 1_000_000_000_000
MAX_SECONDS = 1_000_000_000
"""30 years: the longest duration. Added to a date of this century it is a date."""
MAX_MINUTES = MAX_SECONDS // 60

_STEP = Decimal(1).scaleb(-USD_DECIMALS)
_MAX_USD_CHARS = 40
_LEGIBLE_DIGITS = 15
_USD_PATTERN = r"^[0-9]{1,10}(\.[0-9]{1,12})?$"
"""Plain decimal notation. `Usd` itself checks the value."""

_USD_RULE: LiteralString = (
    "Input should be an amount in US dollars: greater than 0, at most 1000000000, with at most 12 decimal places"
)

_is_checking: ContextVar[bool | None] = ContextVar("outlast_checking_bounds", default=None)


@contextmanager
def checking_bounds() -> Generator[None]:
    """Refuse what is out of bounds while a request is read, but not inside `reading_recorded`."""
    token = _is_checking.set(True) if _is_checking.get() is None else None
    try:
        yield
    finally:
        if token is not None:
            _is_checking.reset(token)


@contextmanager
def reading_recorded() -> Generator[None]:
    """Accept what is out of bounds: it was recorded before there was a bound."""
    token = _is_checking.set(False)
    try:
        yield
    finally:
        _is_checking.reset(token)


class AtMost:
    """Marks a number that may not be larger than `limit` in a request. A lower bound stands before the mark, in the
    same annotation: of one of the field, pydantic publishes `ge`, which is not a keyword of JSON Schema.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._checked, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(schema), "maximum": self._limit}

    def _checked(self, value: float) -> float:
        # Not "value > limit": NaN is not larger than anything.
        if _is_checking.get() and not value <= self._limit:
            raise PydanticKnownError("less_than_equal", {"le": self._limit})
        return value


class _UsdBounds:
    """Marks an amount of money, see `Usd`."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_wrap_validator_function(self._checked, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        found = handler(schema)
        for one in found.get("anyOf", [found]):
            if one.get("type") == "string":
                one["pattern"] = _USD_PATTERN
            else:
                one["maximum"] = int(MAX_USD)
        return found

    @staticmethod
    def _checked(value: Any, handler: Any) -> Any:
        if not _is_checking.get():
            return handler(value)
        if isinstance(value, bool) or (isinstance(value, str) and len(value) > _MAX_USD_CHARS):
            raise _usd_error()
        read = handler(value)
        amount = Decimal(str(read))
        if not is_usd(amount):
            raise _usd_error()
        return Decimal(f"{amount:f}") if isinstance(read, Decimal) else read


Usd = Annotated[Decimal, Field(gt=0, allow_inf_nan=False), _UsdBounds()]
"""Money in a request: above 0, at most `MAX_USD`, with at most `USD_DECIMALS` decimal places."""
UsdFloat = Annotated[float, Field(gt=0), _UsdBounds()]
"""As `Usd`, for contracts that have recorded it as a float."""
Count = Annotated[int, AtMost(MAX_COUNT)]
Offset = Annotated[int, Field(ge=0), AtMost(2**53 - 1)]
"""Rows or bytes to skip: the largest whole number that every JSON parser keeps exact."""
Tokens = Annotated[int, AtMost(MAX_TOKENS)]
PositiveCount = Annotated[int, Field(ge=1), AtMost(MAX_COUNT)]
PositiveTokens = Annotated[int, Field(ge=1), AtMost(MAX_TOKENS)]
PositiveSeconds = Annotated[int, Field(ge=1), AtMost(MAX_SECONDS)]
PositiveMinutes = Annotated[float, Field(gt=0), AtMost(MAX_MINUTES)]


def is_usd(amount: Decimal | float) -> bool:
    """Return True if a request may have this amount."""
    exact = amount if isinstance(amount, Decimal) else Decimal(str(amount))
    return exact.is_finite() and 0 < exact <= MAX_USD and exact == exact.quantize(_STEP)


def rounded_usd(amount: Decimal | float, step: Decimal) -> Decimal:
    """Return an amount as a multiple of `step`. One beyond what money is, is the largest amount of its sign."""
    exact = amount if isinstance(amount, Decimal) else Decimal(str(amount))
    if exact.is_nan():
        raise ValueError("an amount of money is a number")
    return max(-MAX_USD, min(exact, MAX_USD)).quantize(step)


def usd_flaw(amounts: Mapping[str, Decimal | None]) -> str | None:
    """Says which of the amounts, by field, is none that a request may have; None if each is, or is absent. Work that
    was started before there was a bound, or around the entry points, ends with this message.
    """
    for field, amount in amounts.items():
        if amount is not None and not is_usd(amount):
            return f"`{field}` is {usd_text(amount)}. {_USD_RULE}"
    return None


def usd_text(amount: Decimal) -> str:
    """Return an amount for people: at least two decimal places, and as many as there are."""
    if not amount.is_finite() or abs(amount.adjusted()) > _LEGIBLE_DIGITS:
        return str(amount)[:_MAX_USD_CHARS]
    cents = amount.quantize(Decimal("0.01"))
    return f"{cents if cents == amount else amount.normalize():f}"


def _usd_error() -> PydanticCustomError:
    return PydanticCustomError("usd", _USD_RULE)
