"""Unknown fields are found at any depth, and cost little however many there are."""

from typing import Annotated, Any, Literal

import pytest
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, JsonValue, ValidationError

from outlast.workflows.contracts.unknown_fields import MAX_REPORTED, KnownFieldsOnly


class Leaf(BaseModel):
    type: Literal["leaf"] = "leaf"
    max_items: int = 1


class Stem(BaseModel):
    type: Literal["stem"]
    leaves: tuple[Leaf, ...] = ()
    by_name: dict[str, Leaf] = {}


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")


class Tree(KnownFieldsOnly):
    leaf: Leaf | None = None
    parts: list[Annotated[Leaf | Stem, Field(discriminator="type")]] = Field(default_factory=list)
    opened: Open | None = None
    free: dict[str, JsonValue] = Field(default_factory=dict)
    named: int = Field(default=0, validation_alias=AliasChoices("toName", "to_name"))


def places(value: Any) -> dict[tuple[Any, ...], str]:
    try:
        Tree.model_validate(value)
    except ValidationError as error:
        return {one["loc"]: one["msg"] for one in error.errors()}
    return {}


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"leaf": {"maxItems": 1}}, ("leaf", "maxItems")),
        ({"parts": [{"type": "leaf"}, {"type": "stem", "leaves": [{}, {"x": 1}]}]}, ("parts", 1, "leaves", 1, "x")),
        ({"parts": [{"type": "stem", "by_name": {"a": {"x": 1}}}]}, ("parts", 0, "by_name", "a", "x")),
        ({"named": 1}, ("named",)),
    ],
)
def test_an_unknown_field_is_found_wherever_a_model_is(value: Any, place: tuple[Any, ...]) -> None:
    assert list(places(value)) == [place]


def test_other_violations_are_told_beside_it() -> None:
    found = places({"leaff": 1, "to_name": "x", "leaf": {"max_items": "x", "min_items": 1}})
    assert set(found) == {("leaff",), ("to_name",), ("leaf", "max_items"), ("leaf", "min_items")}
    assert found["leaff",] == "Unknown field 'leaff': did you mean 'leaf'?"
    assert "'max_items'" in found["leaf", "min_items"]


def test_what_is_free_stays_free() -> None:
    assert places({"free": {"any": {"thing": 1}}, "opened": {"x": 1}, "leaf": None, "toName": 2}) == {}


def test_very_many_are_not_listed() -> None:
    assert len(places({f"field{number}": 1 for number in range(100_000)})) == MAX_REPORTED
    assert list(places({"parts": [1] * 100_000})) == [()]
    assert all(len(message) < 300 for message in places({"x" * 100_000: 1}).values())
