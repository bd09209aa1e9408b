"""The fetcher against real sockets: every hop is judged, and nothing harmful gets through."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from outlast.activities.contracts import ErrorCategory
from outlast.activities.failures.classify import ToolFailure
from outlast.activities.web.address_rules import AddressNotAllowed, AddressRules, WebAddress
from outlast.activities.web.fetcher import HTML_TYPES, FetchLimits, WebFetcher, WebPage
from tests.support.http.hostile_receiver import answering
from tests.support.http.pages import Served, WebServer, serving_pages


@pytest.fixture
def docs() -> Iterator[WebServer]:
    with serving_pages() as server:
        yield server


@pytest.fixture
def secret() -> Iterator[WebServer]:
    """Another server of the same machine, which must never be asked."""
    with serving_pages() as server:
        server.page("/secret", "<h1>Secret</h1>")
        yield server
        assert server.asked == []


def fetcher_of(docs: WebServer, **limits: Any) -> WebFetcher:
    site = WebAddress.parse(f"{docs.url}/site/")
    return WebFetcher(AddressRules(sites=(site,), trusts_sites=True), FetchLimits(**limits))


async def fetched(fetcher: WebFetcher, url: str) -> WebPage:
    async with fetcher:
        return await fetcher.fetch(WebAddress.parse(url), accept=HTML_TYPES)


async def refusal(fetcher: WebFetcher, url: str) -> ToolFailure:
    with pytest.raises(ToolFailure) as caught:
        await fetched(fetcher, url)
    return caught.value


async def test_redirects_inside_the_site_are_followed(docs: WebServer) -> None:
    docs.page("/site/page", "<h1>Pâge</h1>")
    docs.redirect("/site/moved", "page", 301)
    page = await fetched(fetcher_of(docs), docs.redirect("/site/old", f"{docs.url}/site/moved", 307))
    assert page.address.url == f"{docs.url}/site/page"
    assert page.text == "<h1>Pâge</h1>"


async def test_a_redirect_out_of_the_site_is_refused(docs: WebServer, secret: WebServer) -> None:
    fetcher = fetcher_of(docs)
    targets = [
        f"{secret.url}/secret",
        "/v2/users/me",
        "//localhost/",
        "/site/../v2/users/me",
        "http://169.254.169.254/latest/meta-data/",
        "file:///etc/passwd",
        docs.url.replace("http://", "http://user@") + "/site/page",
    ]
    for number, target in enumerate(targets):
        refused = await refusal(fetcher, docs.redirect(f"/site/{number}", target))
        assert isinstance(refused, AddressNotAllowed), target
    assert {path for path in docs.asked if not path.startswith("/site/")} == set()


async def test_a_loop_of_redirects_ends(docs: WebServer) -> None:
    failure = await refusal(fetcher_of(docs), docs.redirect("/site/loop", "/site/loop"))
    assert "redirects more than" in str(failure)


@pytest.mark.parametrize(
    "notation", ["127.0.0.1", "localhost", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "[::ffff:127.0.0.1]"]
)
async def test_loopback_is_refused_in_every_notation(notation: str) -> None:
    refused = await refusal(WebFetcher(AddressRules()), f"http://{notation}:8080/site/")
    assert isinstance(refused, AddressNotAllowed)


async def test_the_connection_goes_to_the_address_that_was_judged(
    secret: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DNS rebinding: a name that was public when it was judged is not looked up a second time."""
    answers = iter(["192.0.2.1", "127.0.0.1"])
    asked: list[str] = []

    def rebinding(host: str, port: int, **_: object) -> list[Any]:
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(answers), port))]

    monkeypatch.setattr(socket, "getaddrinfo", rebinding)
    port = int(secret.url.rpartition(":")[2])
    rules = AddressRules(sites=(WebAddress.parse(f"http://rebind.example:{port}/"),), trusts_sites=True)
    fetcher = WebFetcher(rules, FetchLimits(connect_seconds=0.2, total_seconds=1))
    await refusal(fetcher, f"http://rebind.example:{port}/secret")
    assert asked == ["rebind.example"]


async def test_a_name_that_resolves_to_a_private_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def private(_host: str, port: int, **_: object) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in ("8.8.8.8", "10.0.0.7")]

    monkeypatch.setattr(socket, "getaddrinfo", private)
    assert isinstance(await refusal(WebFetcher(AddressRules()), "http://innocent.example/"), AddressNotAllowed)


async def test_a_name_that_does_not_exist_is_not_found() -> None:
    failure = await refusal(WebFetcher(AddressRules()), "http://nobody.invalid/")
    assert failure.envelope.category is ErrorCategory.NOT_FOUND


async def test_a_page_that_begins_with_interim_answers_without_end_is_left() -> None:
    async with answering(rest=b"HTTP/1.1 103 Early Hints\r\n\r\n" * 1_000) as server:
        fetcher = WebFetcher(AddressRules(allow_private=True), FetchLimits(max_bytes=0, total_seconds=600))
        failure = await refusal(fetcher, server.url)
        await server.left.wait()
    assert failure.envelope.category is ErrorCategory.NETWORK


async def test_only_pages_are_read_and_no_more_of_them_than_allowed(docs: WebServer) -> None:
    fetcher = fetcher_of(docs, max_bytes=100_000)
    for number, (served, reason) in enumerate(
        [
            (Served(b"\x7fELF", "application/octet-stream"), "its type is application/octet-stream"),
            (Served(b"{}", ""), "its type is not given"),
            (Served(b"x" * 100_001), "larger than"),
            (Served(b"x", headers={"Content-Encoding": "br"}), "encoded as br"),
            (Served(b"no gzip", headers={"Content-Encoding": "gzip"}), "the connection failed"),
            (Served(b"", status=503), "answered 503"),
            (Served(b"", status=401), "answered 401"),
        ]
    ):
        docs.answers[f"/site/{number}"] = served
        assert reason in str(await refusal(fetcher, f"{docs.url}/site/{number}"))
    missing = await refusal(fetcher, f"{docs.url}/site/missing")
    assert missing.envelope.category is ErrorCategory.NOT_FOUND


async def test_gzip_is_undone_and_a_bomb_is_not(docs: WebServer) -> None:
    fetcher = fetcher_of(docs, max_bytes=100_000)
    assert (await fetched(fetcher, docs.gzipped("/site/packed", b"<p>packed</p>" * 5_000))).size_bytes == 65_000
    assert "larger than" in str(await refusal(fetcher, docs.gzipped("/site/bomb", bytes(200_000_000))))


async def test_a_page_that_does_not_come_is_given_up(docs: WebServer) -> None:
    docs.answers["/site/slow"] = Served(b"late", delay_seconds=0.6)
    failure = await refusal(fetcher_of(docs, total_seconds=0.2), f"{docs.url}/site/slow")
    assert failure.envelope.category is ErrorCategory.TIMEOUT
    assert failure.envelope.retryable
