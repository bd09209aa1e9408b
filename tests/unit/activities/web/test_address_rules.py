"""Which addresses may be fetched, judged as they are written and as what they resolve to."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.activities.web.address_rules import AddressNotAllowed, AddressRules, WebAddress, is_public

DOCS = WebAddress.parse("http://127.0.0.1:8401/site/")
ONLY_DOCS = AddressRules(sites=(DOCS,), trusts_sites=True)
PUBLIC = AddressRules()


@pytest.mark.parametrize(
    "text",
    [
        "file:///etc/passwd",
        "ftp://example.com/",
        "javascript:alert(1)",
        "//example.com/",
        "example.com",
        "",
        "http://",
        "http:///path",
        "http://user@example.com/",
        "http://user:password@example.com/",
        "http://docs.apify.com@127.0.0.1/",
        "http://127.0.0.1\\@docs.apify.com/",
        "http://docs.apify.com\\.evil.example/",
        "http://docs.apify.com /",
        "http://docs.apify.com/\r\nHost: evil.example",
        "http://example.com:99999/",
        "http://ex%61mple.com/",
        "http://[::1/",
        f"http://example.com/{'a' * 3_000}",
    ],
)
def test_what_is_no_plain_web_address_is_refused(text: str) -> None:
    with pytest.raises(AddressNotAllowed):
        WebAddress.parse(text)


def test_an_address_is_normalised_once() -> None:
    address = WebAddress.parse("HTTPS://Docs.Apify.com./a/./b/../c?q=1#top")
    assert address.origin == ("https", "docs.apify.com", 443)
    assert (address.url, address.fragment) == ("https://docs.apify.com/a/c?q=1", "top")
    assert WebAddress.parse("../d", base=address).url == "https://docs.apify.com/d"
    assert WebAddress.parse("//evil.example/", base=address).host == "evil.example"


@pytest.mark.parametrize(
    "inside", ["http://127.0.0.1:8401/site/", "http://127.0.0.1:8401/site/a/b.html?x=1", "http://127.0.0.1:8401/site"]
)
def test_documentation_is_what_lies_below_its_root(inside: str) -> None:
    ONLY_DOCS.check(WebAddress.parse(inside))


@pytest.mark.parametrize(
    "outside",
    [
        "http://127.0.0.1:8401/v2/users/me",
        "http://127.0.0.1:8401/siteadmin",
        "http://127.0.0.1:8401/site/../v2/users/me",
        "http://127.0.0.1:8401/site/%2e%2e/v2/users/me",
        "http://127.0.0.1:8401/site/..%2fv2/users/me",
        "http://127.0.0.1:8401/site/%2e%2e%5cv2",
        "https://127.0.0.1:8401/site/",
        "http://127.0.0.1:8402/site/",
        "http://localhost:8401/site/",
        "http://127.1:8401/site/",
        "http://2130706433:8401/site/",
        "https://docs.apify.com/",
    ],
)
def test_nothing_else_of_its_host_is_documentation(outside: str) -> None:
    with pytest.raises(AddressNotAllowed, match="outside the documentation"):
        ONLY_DOCS.check(WebAddress.parse(outside))


@pytest.mark.parametrize(
    "address",
    """127.0.0.1 127.8.9.10 0.0.0.0 10.0.0.1 172.16.0.1 192.168.1.1 169.254.169.254 100.64.0.1 192.0.0.1 198.18.0.1
    224.0.0.1 240.0.0.1 255.255.255.255 ::1 :: fe80::1 fc00::1 fec0::1 ff02::1 ::ffff:127.0.0.1 ::ffff:169.254.169.254
    64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 2002:7f00:1:: 2001:0:1:1:0:0:80ff:fffe 2001:db8::1""".split(),
)
def test_an_address_that_is_not_public_is_never_connected_to(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))
    with pytest.raises(AddressNotAllowed, match="not public"):
        PUBLIC.check_resolved("harmless.example", 443, [ipaddress.ip_address(address)])


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:2800:220:1::1", "64:ff9b::5db8:d822", "::ffff:8.8.8.8"])
def test_a_public_address_is_connected_to(address: str) -> None:
    PUBLIC.check_resolved("example.com", 443, [ipaddress.ip_address(address)])


def test_one_private_address_among_public_ones_condemns_the_name() -> None:
    with pytest.raises(AddressNotAllowed):
        PUBLIC.check_resolved("x.example", 80, [ipaddress.ip_address("8.8.8.8"), ipaddress.ip_address("10.0.0.1")])


def test_only_the_site_an_operator_named_may_be_private() -> None:
    loopback = [ipaddress.ip_address("127.0.0.1")]
    ONLY_DOCS.check_resolved("127.0.0.1", 8401, loopback)
    for host, port in (("127.0.0.1", 8402), ("localhost", 8401)):
        with pytest.raises(AddressNotAllowed):
            ONLY_DOCS.check_resolved(host, port, loopback)
    with pytest.raises(AddressNotAllowed):  # the default site was named by no operator: its DNS is not trusted either
        AddressRules(sites=(DOCS,)).check_resolved("127.0.0.1", 8401, loopback)


def test_an_operator_may_allow_private_networks_but_not_the_clouds_metadata() -> None:
    rules = AddressRules(allow_private=True)
    for allowed in ("127.0.0.1", "10.0.0.1", "::1", "fc00::1", "8.8.8.8"):
        rules.check_resolved("x", 80, [ipaddress.ip_address(allowed)])
    for refused in ("169.254.169.254", "fe80::1", "0.0.0.0", "::", "224.0.0.1", "::ffff:169.254.169.254"):
        with pytest.raises(AddressNotAllowed):
            rules.check_resolved("x", 80, [ipaddress.ip_address(refused)])


def test_a_refusal_names_the_setting_that_would_allow_the_address() -> None:
    for host, is_named in (("127.0.0.1", True), ("10.0.0.1", True), ("169.254.169.254", False), ("0.0.0.0", False)):
        with pytest.raises(AddressNotAllowed) as refused:
            PUBLIC.check_resolved("x", 80, [ipaddress.ip_address(host)])
        assert ("OUTLAST_ALLOW_PRIVATE_ADDRESSES=true" in refused.value.remedy) == is_named
    with pytest.raises(AddressNotAllowed) as refused:
        PUBLIC.check(WebAddress.parse("http://example.com:9000/"))
    assert "OUTLAST_ALLOW_PRIVATE_ADDRESSES=true" in refused.value.remedy


@pytest.mark.parametrize(("port", "allowed"), [(80, True), (443, True), (8080, True), (22, False), (6379, False)])
def test_public_pages_are_on_web_ports(port: int, allowed: bool) -> None:
    address = WebAddress.parse(f"http://example.com:{port}/")
    if allowed:
        PUBLIC.check(address)
    else:
        with pytest.raises(AddressNotAllowed, match="port"):
            PUBLIC.check(address)


@given(st.ip_addresses(v=4))
def test_an_ipv4_address_is_judged_alike_in_every_wrapping(address: ipaddress.IPv4Address) -> None:
    public = is_public(address)
    assert is_public(ipaddress.ip_address(f"::ffff:{address}")) == public
    assert is_public(ipaddress.IPv6Address((0x64FF9B << 96) | int(address))) == public
    assert is_public(ipaddress.IPv6Address((0x2002 << 112) | (int(address) << 80))) == public
