"""Rows of a shop's catalogue, as JSON text: deterministic in (seed, profile, row number).

A row consists of JSON fragments that are made once. Serialising it field by field would cost ten times as much.
"""

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

SENTENCE_COUNT = 6_000
TITLE_COUNT = 3_000
TAG_LIST_COUNT = 1_000
SELLER_COUNT = 500
ROWS_PER_BLOCK = 500
FIRST_CRAWL = datetime(2026, 1, 1, tzinfo=UTC)
MILLISECONDS_PER_ROW = 60_000 // ROWS_PER_BLOCK
"""All rows of a block have `crawledAt` in the same minute, so that the date is formatted once per block."""
PROFILES = ("narrow", "standard", "wide")
ADJECTIVES = (
    "compact rugged lightweight wireless foldable silent durable waterproof handmade modular vintage ergonomic "
    "portable insulated adjustable recycled solar-powered stainless magnetic breathable premium everyday"
).split()
MATERIALS = (
    "oak aluminium merino carbon bamboo canvas leather ceramic titanium cork linen walnut copper glass wool denim"
).split()
NOUNS = (
    "backpack kettle lantern keyboard tent bicycle headphones notebook jacket thermos speaker blender desk chair "
    "camera drone helmet rucksack toolbox teapot monitor hammock stove microscope telescope armchair bookshelf"
).split()
PARTS = (
    "zip handle strap lid battery hinge cable seam cover switch frame base nozzle filter clasp lining display wheel"
).split()
VERBS = "arrived broke survived improved lasted leaked wobbled charged shipped folded performed rattled cooled".split()
PLACES = (
    "Praha;Brno;Zürich;København;São Paulo;Kraków;Łódź;Reykjavík;Malmö;Besançon;A Coruña;İzmir;東京;大阪;서울;Київ;"
    "Αθήνα;Lagos;Nairobi;Montréal;Portland;Wellington"
).split(";")
PEOPLE = (
    "Zoë Müller;José García;Aoife Ní Bhriain;Tomáš Dvořák;Anaïs Lefèvre;Søren Kjær;Ewa Wiśniewska;Nguyễn Văn An;"
    "山田 花子;김민준;Олена Коваль;Μαρία Παπαδοπούλου;Amara Okafor;Priya Raman;John Smith;Björk Jónsdóttir"
).split(";")
BRANDS = (
    "Nordlys Halcyon Terravox Ålesund Kestrel Ōmori Bramble&Co Fjällborg Quillon Zephyrine Ostrava Meridian".split()
)
TAGS = (
    "outdoor;kitchen;office;travel;sale;new;bestseller;café;gift 🎁;eco ♻️;clearance;limited edition;kids;winter;"
    'summer;2-in-1;"premium";refurbished;B-stock;handmade ✨'
).split(";")
COUNTRIES = "CZ DE FR PL DK SE CH ES JP KR UA GR US CA BR NG KE NZ IS NO".split()
CURRENCIES = "EUR USD CZK PLN CHF JPY GBP".split()
SENTENCE_PATTERNS = (
    "The {adjective} {noun} has a {material} {part} that {verb} after {number} days of daily use.",
    "We tested this {noun} in {place} for {number} weeks, and the {part} {verb} only once.",
    'One reviewer called it "the most {adjective} {noun} I own"; another complained about the {part}.',
    "Weighing {number} g, it fits next to a {adjective} {noun2} without touching the {material} {part}.",
    "Customers from {place} ordered {number} of them last month — mostly the {material} edition.",
    "{person} writes: the {part} is {adjective}, the {noun} itself is worth every cent.",
    "Care: wipe the {material} {part} with a dry cloth, never above {number} °C.",
    "Unlike the previous model, the {part} is now {adjective} and made of {material}.",
    "The box contains one {noun}, a spare {part}, {number} screws and a printed manual (12 languages).",
    "It {verb} well below freezing, which cannot be said of every {adjective} {noun2}.",
    "Prices in {place} start at {number},90 € including VAT; shipping takes 3–5 days.",
    "Designed by {person} in {place}, it replaces the {adjective} {noun2} of {number} years ago.",
    "Note:\tthe {part} is sold separately under order number {number}/{number2}.",
    "If the {part} ever fails, {person} will repair it free of charge for {number} months.",
)


@dataclass(frozen=True)
class Pools:
    """JSON fragments to choose from. `sentences` have no quotes (they are joined), the others are whole values."""

    sentences: Sequence[str]
    titles: Sequence[str]
    slugs: Sequence[str]
    tag_lists: Sequence[str]
    sellers: Sequence[str]


@dataclass(frozen=True)
class RowFactory:
    """Maker of the rows of one table.

    The random numbers are reseeded every `ROWS_PER_BLOCK` rows, so that a block can be made without those before it.
    """

    seed: int
    profile: str
    pools: Pools

    @classmethod
    def create(cls, seed: int, profile: str) -> "RowFactory":
        """Make a factory with the pools of its seed."""
        return cls(seed, profile, build_pools(seed))

    def rows(self, count: int | None) -> Iterator[str]:
        """Yield the first `count` rows, each a JSON object; without a count the rows never end."""
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
        """Make a row with identity and numbers only, some 300 bytes."""
        draw = rng.random
        title = int(draw() * len(self.pools.titles))
        price = 100 + int(draw() ** 3 * 250_000)
        currency = CURRENCIES[int(draw() * len(CURRENCIES))]
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
        """Make the row of a shop's page: three paragraphs, tags, seller; some 1.7 kB."""
        pools, draw = self.pools, rng.random
        seller = pools.sellers[int(draw() * len(pools.sellers))]
        tags = pools.tag_lists[int(draw() * len(pools.tag_lists))]
        optional = f',"note":"{self._text(rng, 1)}"' if draw() < 0.2 else ""
        return (
            f'{self._narrow(rng, index, minute)},"description":"{self._paragraphs(rng, 3)}"'
            f',"tags":{tags},"seller":{seller}{optional}'
        )

    def _wide(self, rng: random.Random, index: int, minute: str) -> str:
        """Make a standard row with a long text and reviews; some 8 kB."""
        reviews = ",".join(
            f'{{"author":"{PEOPLE[int(rng.random() * len(PEOPLE))]}","stars":{1 + int(rng.random() * 5)}'
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


def build_pools(seed: int) -> Pools:
    """Make the pools of a seed; the same seed gives the same pools. Takes about 60 ms."""
    rng = random.Random(f"pools:{seed}")
    titles = [_title(rng) for _ in range(TITLE_COUNT)]
    return Pools(
        sentences=[encode(_sentence(rng))[1:-1] for _ in range(SENTENCE_COUNT)],
        titles=[encode(title) for title in titles],
        slugs=[_slug(title) for title in titles],
        tag_lists=[encode(rng.sample(TAGS, rng.randint(0, 5))) for _ in range(TAG_LIST_COUNT)],
        sellers=[encode(_seller(rng)) for _ in range(SELLER_COUNT)],
    )


def encode(value: object) -> str:
    """Return compact JSON with unescaped Unicode."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _sentence(rng: random.Random) -> str:
    return rng.choice(SENTENCE_PATTERNS).format(
        adjective=rng.choice(ADJECTIVES),
        material=rng.choice(MATERIALS),
        noun=rng.choice(NOUNS),
        noun2=rng.choice(NOUNS),
        part=rng.choice(PARTS),
        verb=rng.choice(VERBS),
        place=rng.choice(PLACES),
        person=rng.choice(PEOPLE),
        number=rng.randint(2, 990),
        number2=rng.randint(10, 99),
    )


def _title(rng: random.Random) -> str:
    adjective, material, noun = rng.choice(ADJECTIVES), rng.choice(MATERIALS), rng.choice(NOUNS)
    return f"{rng.choice(BRANDS)} {adjective} {material} {noun} No. {rng.randint(1, 99)}"


def _slug(title: str) -> str:
    """Return the ASCII letters and digits of a title, as in the URL of a shop."""
    plain = "".join(char if char.isascii() and char.isalnum() else " " for char in title.lower())
    return "-".join(plain.split())


def _seller(rng: random.Random) -> dict[str, object]:
    seller: dict[str, object] = {
        "name": rng.choice(PEOPLE),
        "verified": rng.random() < 0.8,
        "address": {"city": rng.choice(PLACES), "country": rng.choice(COUNTRIES)},
    }
    if rng.random() < 0.5:
        seller["contact"] = {"email": f"sales{rng.randint(1, 999)}@shop.example", "phone": None}
    return seller
