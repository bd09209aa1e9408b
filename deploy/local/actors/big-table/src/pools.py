"""Pools of ready-made JSON fragments: a row is put together from them instead of being serialised.

Serialising a row field by field costs ten times as much as joining texts that are JSON already, and this Actor exists
to produce gigabytes.
"""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass

from . import vocabulary as words

SENTENCE_COUNT = 6_000
TITLE_COUNT = 3_000
TAG_LIST_COUNT = 1_000
SELLER_COUNT = 500


@dataclass(frozen=True)
class Pools:
    """JSON fragments to choose from. `sentences` lack their quotes (they are joined), the others are whole values."""

    sentences: Sequence[str]
    titles: Sequence[str]
    slugs: Sequence[str]
    tag_lists: Sequence[str]
    sellers: Sequence[str]


def build_pools(seed: int) -> Pools:
    """The pools of a seed; the same seed gives the same pools. Takes about 60 ms."""
    rng = random.Random(f"pools:{seed}")
    titles = [_title(rng) for _ in range(TITLE_COUNT)]
    return Pools(
        sentences=[encode(_sentence(rng))[1:-1] for _ in range(SENTENCE_COUNT)],
        titles=[encode(title) for title in titles],
        slugs=[_slug(title) for title in titles],
        tag_lists=[encode(rng.sample(words.TAGS, rng.randint(0, 5))) for _ in range(TAG_LIST_COUNT)],
        sellers=[encode(_seller(rng)) for _ in range(SELLER_COUNT)],
    )


def encode(value: object) -> str:
    """Compact JSON with its Unicode left as it is."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _sentence(rng: random.Random) -> str:
    return rng.choice(words.SENTENCE_PATTERNS).format(
        adjective=rng.choice(words.ADJECTIVES),
        material=rng.choice(words.MATERIALS),
        noun=rng.choice(words.NOUNS),
        noun2=rng.choice(words.NOUNS),
        part=rng.choice(words.PARTS),
        verb=rng.choice(words.VERBS),
        place=rng.choice(words.PLACES),
        person=rng.choice(words.PEOPLE),
        number=rng.randint(2, 990),
        number2=rng.randint(10, 99),
    )


def _title(rng: random.Random) -> str:
    adjective, material, noun = rng.choice(words.ADJECTIVES), rng.choice(words.MATERIALS), rng.choice(words.NOUNS)
    return f"{rng.choice(words.BRANDS)} {adjective} {material} {noun} No. {rng.randint(1, 99)}"


def _slug(title: str) -> str:
    """The ASCII letters and digits of a title, as in the URL of a shop."""
    plain = "".join(char if char.isascii() and char.isalnum() else " " for char in title.lower())
    return "-".join(plain.split())


def _seller(rng: random.Random) -> dict[str, object]:
    seller: dict[str, object] = {
        "name": rng.choice(words.PEOPLE),
        "verified": rng.random() < 0.8,
        "address": {"city": rng.choice(words.PLACES), "country": rng.choice(words.COUNTRIES)},
    }
    if rng.random() < 0.5:
        seller["contact"] = {"email": f"sales{rng.randint(1, 999)}@shop.example", "phone": None}
    return seller
