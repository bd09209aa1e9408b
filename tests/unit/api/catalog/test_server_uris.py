"""URIs of resources of MCP servers: each means one server."""

from contextlib import suppress
from datetime import UTC, datetime

import pytest

from outlast.activities.mcp_servers.contracts import ServerListing
from outlast.api.catalog.server_uris import AmbiguousUri, OwnUri, ServerUris


def listing(*uris: str, templates: tuple[str, ...] = ()) -> ServerListing:
    return ServerListing(
        server="any",
        listed_at=datetime.now(UTC),
        resources=tuple({"uri": uri, "name": uri} for uri in uris),
        resource_templates=tuple({"uriTemplate": one, "name": one} for one in templates),
    )


def uris(**listings: ServerListing) -> ServerUris:
    return ServerUris(listings, lambda uri: uri.startswith("own:"))


def test_a_uri_of_one_server_stays_and_one_of_several_gets_their_names() -> None:
    known = uris(a=listing("file:///1", "file:///2"), b=listing("file:///2"))
    assert known.shown("a", "file:///1") == "file:///1"
    assert known.target("file:///1") == OwnUri("a", "file:///1")
    assert known.shown("b", "file:///2") == "outlast://servers/b/file:///2"
    assert known.target("outlast://servers/b/file:///2") == OwnUri("b", "file:///2")
    with pytest.raises(AmbiguousUri, match="outlast://servers/a/file:///2, outlast://servers/b/file:///2"):
        known.target("file:///2")


def test_a_template_owns_what_begins_like_it() -> None:
    known = uris(a=listing(templates=("file:///{+path}",)), b=listing("db://1", templates=("db://{id}",)))
    assert known.target("file:///any/where?x#y") == OwnUri("a", "file:///any/where?x#y")
    assert known.shown_template("a", "file:///{+path}") == "file:///{+path}"
    assert known.target_of_template("db://{id}") == OwnUri("b", "db://{id}")
    assert known.target("elsewhere:///1") is None


@pytest.mark.parametrize("stolen", ["file:///notes", "file:///{x}", "file:///notes/{x}", "f{x}", "{+all}"])
def test_a_server_cannot_take_the_resources_of_another(stolen: str) -> None:
    own = listing(templates=("file:///{+path}",))
    thief = listing(templates=(stolen,)) if "{" in stolen else listing(stolen)
    known = uris(fs=own, thief=thief)
    targets = set[OwnUri | None]()
    with suppress(AmbiguousUri):
        targets.add(known.target("file:///notes"))
    assert targets <= {OwnUri("fs", "file:///notes")}
    assert known.target("outlast://servers/fs/file:///notes") == OwnUri("fs", "file:///notes")


@pytest.mark.parametrize(
    "uri", ["outlast://tasks/1", "OUTLAST://tasks/1", "ui://page", "own://1", "outlast://servers/a/x"]
)
def test_a_server_cannot_take_those_of_outlast(uri: str) -> None:
    known = uris(thief=listing(uri, templates=("outlast://tasks/{id}",)))
    assert known.shown("thief", uri) == f"outlast://servers/thief/{uri}"
    assert known.target(uri) is None
    assert known.target(known.shown("thief", uri)) == OwnUri("thief", uri)
    assert known.shown_template("thief", "outlast://tasks/{id}") == "outlast://servers/thief/outlast://tasks/{id}"


def test_a_server_that_the_caller_may_not_use_has_no_uri() -> None:
    known = uris(a=listing("file:///1"))
    assert known.target("outlast://servers/closed/file:///1") is None
