"""An Actor's name becomes a tool name that every model provider accepts, and no other Actor's."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.workflows.tools.core.actor_names import (
    MAX_TOOL_NAME,
    actor_tool_name,
    normalised_actor,
    split_actor_tool,
)

# Names of Apify users and Actors: letters, digits, dots, dashes, underscores; a user's name has no double dash.
_NAME = (
    st.text("abz019._-", min_size=1, max_size=60).map(lambda name: f"x{name}x").filter(lambda name: "--" not in name)
)


@pytest.mark.parametrize(
    ("actor", "tool"),
    [
        ("apify/rag-web-browser", "apify--rag-web-browser"),
        ("jane.doe/my_actor", "jane-dot-doe--my_actor"),
        ("a/" + "b" * 61, "a--" + "b" * 61),
    ],
)
def test_an_actor_is_called_by_user_and_name(actor: str, tool: str) -> None:
    assert actor_tool_name(actor) == tool


@given(_NAME, _NAME)
def test_every_name_fits_what_providers_accept(user: str, name: str) -> None:
    tool = actor_tool_name(f"{user}/{name}")
    assert len(tool) <= MAX_TOOL_NAME
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", tool)


@given(st.lists(st.tuples(_NAME, _NAME), min_size=2, max_size=20, unique=True))
def test_different_actors_have_different_names(actors: list[tuple[str, str]]) -> None:
    full_names = {f"{user}/{name}" for user, name in actors}
    distinct = {name.replace(".", "-dot-") for name in full_names}
    assert len({actor_tool_name(name) for name in full_names}) == len(distinct)


def test_long_names_that_begin_alike_stay_distinct() -> None:
    one, other = (actor_tool_name(f"user/{'x' * 80}{end}") for end in "ab")
    assert one != other
    assert one.startswith("user--xxx")


@pytest.mark.parametrize(
    ("given_name", "full_name"),
    [
        ("apify/x", "apify/x"),
        ("apify~x", "apify/x"),
        (" apify~x ", "apify/x"),
        ("`'apify/x' `", "apify/x"),
        ("aB3dE5gH7jK9mN1pQ", "aB3dE5gH7jK9mN1pQ"),
    ],
)
def test_both_spellings_of_an_actor_are_the_same(given_name: str, full_name: str) -> None:
    assert normalised_actor(given_name) == full_name


ID = "moJRLRc85AitArpNN"


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("https://apify.com/apify/web-scraper", ("apify/web-scraper", None)),
        ("http://www.apify.com/apify/web-scraper/", ("apify/web-scraper", None)),
        (" HTTPS://APIFY.COM/Apify/Web-Scraper ", ("Apify/Web-Scraper", None)),
        ("apify.com/apify/web-scraper?fpr=x#readme", ("apify/web-scraper", None)),
        ("https://apify.com/apify/web-scraper/input-schema", ("apify/web-scraper", None)),
        ("https://apify.com/apify/web-scraper:latest", ("apify/web-scraper", "latest")),
        (f"https://console.apify.com/actors/{ID}/input", (ID, None)),
        (f"https://console.apify.com/organization/abc/actors/{ID}", (ID, None)),
        ("https://api.apify.com/v2/acts/apify~web-scraper/runs?token=apify_api_secret", ("apify/web-scraper", None)),
        ("https://api.apify.com/v2/actors/apify%2Fweb-scraper", ("apify/web-scraper", None)),
        ("https://apify--web-scraper.apify.actor/mcp?x=1", ("apify/web-scraper", None)),
        ("apify/web-scraper:0.1.2", ("apify/web-scraper", "0.1.2")),
    ],
)
def test_the_address_of_an_actor_names_it(written: str, expected: tuple[str, str | None]) -> None:
    assert split_actor_tool(written) == expected


@pytest.mark.parametrize(
    "written",
    [
        "https://evil.example/apify/web-scraper",
        "https://apify.com.evil.example/apify/web-scraper",
        "https://user@apify.com/apify/web-scraper",
        "https://apify.com/apify",
        "https://apify.com/apify/../web-scraper",
        "https://apify.com/a/b c",
    ],
)
def test_another_address_is_no_name_and_is_named_as_a_whole(written: str) -> None:
    assert split_actor_tool(written) == (written, None)
