"""Rows of a shop's catalogue, as JSON text: deterministic in (seed, profile, row number)."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from . import vocabulary as words
from .pools import Pools, build_pools

ROWS_PER_BLOCK = 500
FIRST_CRAWL = datetime(2026, 1, 1, tzinfo=UTC)
MILLISECONDS_PER_ROW = 60_000 // ROWS_PER_BLOCK
"""All rows of a block have `crawledAt` in the same minute, so that the date is formatted once per block."""

PROFILES = ("narrow", "standard", "wide")


@dataclass(frozen=True)
class RowFactory:
    """Makes the rows of one table.

    The random numbers are reseeded every `ROWS_PER_BLOCK` rows, so that a block can be made without those before it.
    """

    seed: int
    profile: str
    pools: Pools

    @classmethod
    def create(cls, seed: int, profile: str) -> "RowFactory":
        """A factory with the pools of its seed."""
        return cls(seed, profile, build_pools(seed))

    def rows(self, count: int | None) -> Iterator[str]:
        """The first `count` rows, each a JSON object; without a count the rows never end."""
        first = 0
        while count is None or first < count:
            block = self._block(first)
            yield from block if count is None else block[: count - first]
            first += ROWS_PER_BLOCK

    def _block(self, first: int) -> list[str]:
        rng = random.Random(f"{self.seed}:{self.profile}:{first}")
        make = {"narrow": self._narrow, "standard": self._standard, "wide": self._wide}[self.profile]
        minute = f"{FIRST_CRAWL + timedelta(minutes=first // ROWS_PER_BLOCK):%Y-%m-%dT%H:%M}"
        return [f"{{{make(rng, index, minute)}}}" for index in range(first, first + ROWS_PER_BLOCK)]

    def _narrow(self, rng: random.Random, index: int, minute: str) -> str:
        """Identity and numbers only, some 300 bytes."""
        draw = rng.random
        title = int(draw() * len(self.pools.titles))
        price = 100 + int(draw() ** 3 * 250_000)
        currency = words.CURRENCIES[int(draw() * len(words.CURRENCIES))]
        rating = f"{1 + draw() * 4:.1f}" if draw() < 0.9 else "null"
        second, millisecond = divmod(index % ROWS_PER_BLOCK * MILLISECONDS_PER_ROW, 1_000)
        discount = f',"discountPercent":{5 + int(draw() * 60)}' if draw() < 0.3 else ""
        return (
            f'"id":{index},"url":"https://shop.example/p/{self.pools.slugs[title]}-{index:08d}"'
            f',"title":{self.pools.titles[title]},"price":{price / 100:.2f},"currency":"{currency}"'
            f',"rating":{rating},"reviewCount":{int(draw() ** 4 * 9_000)}'
            f',"inStock":{"true" if draw() < 0.7 else "false"}{discount}'
            f',"crawledAt":"{minute}:{second:02d}.{millisecond:03d}Z"'
        )

    def _standard(self, rng: random.Random, index: int, minute: str) -> str:
        """A page of a shop: three paragraphs, tags, seller; some 1.7 kB."""
        pools, draw = self.pools, rng.random
        seller = pools.sellers[int(draw() * len(pools.sellers))]
        tags = pools.tag_lists[int(draw() * len(pools.tag_lists))]
        optional = f',"note":"{self._text(rng, 1)}"' if draw() < 0.2 else ""
        return (
            f'{self._narrow(rng, index, minute)},"description":"{self._paragraphs(rng, 3)}"'
            f',"tags":{tags},"seller":{seller}{optional}'
        )

    def _wide(self, rng: random.Random, index: int, minute: str) -> str:
        """A standard row with a long text and reviews; some 8 kB."""
        people = words.PEOPLE
        reviews = ",".join(
            f'{{"author":"{people[int(rng.random() * len(people))]}","stars":{1 + int(rng.random() * 5)}'
            f',"text":"{self._text(rng, 3)}"}}'
            for _ in range(6)
        )
        return (
            f'{self._standard(rng, index, minute)},"longDescription":"{self._paragraphs(rng, 8)}","reviews":[{reviews}]'
        )

    def _paragraphs(self, rng: random.Random, count: int) -> str:
        return r"\n\n".join([self._text(rng, 5) for _ in range(count)])

    def _text(self, rng: random.Random, sentence_count: int) -> str:
        return " ".join(rng.choices(self.pools.sentences, k=sentence_count))
