"""Proxies and certificates of the environment."""

from pathlib import Path

import pytest

from outlast.proxies import exempt_loopback, network_problems, proxy_url

PROXY = "http://proxy.corp.test:3128"


@pytest.mark.parametrize(
    ("environ", "scheme", "expected"),
    [
        ({"HTTPS_PROXY": PROXY}, "https", PROXY),
        ({"HTTPS_PROXY": PROXY}, "http", None),
        ({"HTTP_PROXY": "proxy.corp.test:3128"}, "http", PROXY),
        ({"ALL_PROXY": PROXY}, "https", PROXY),
        ({"https_proxy": PROXY, "HTTPS_PROXY": "http://other"}, "https", PROXY),
        ({"HTTPS_PROXY": " "}, "https", None),
    ],
)
def test_the_proxy_of_a_scheme(environ: dict[str, str], scheme: str, expected: str | None) -> None:
    assert proxy_url(scheme, "example.com", 443, environ) == expected


@pytest.mark.parametrize(
    ("exemptions", "host", "is_exempt"),
    [
        ("", "localhost", True),
        ("", "127.9.9.9", True),
        ("", "::1", True),
        ("", "localhost.example.com", False),
        ("*", "example.com", True),
        ("example.com", "EXAMPLE.com.", True),
        ("example.com", "api.example.com", True),
        (".example.com", "api.example.com", True),
        ("*.example.com", "api.example.com", True),
        ("example.com", "badexample.com", False),
        ("example.com:443", "example.com", True),
        ("example.com:80", "example.com", False),
        ("10.0.0.0/8 , 192.168.1.1", "10.1.2.3", True),
        ("10.0.0.0/8 , 192.168.1.1", "192.168.1.1", True),
        ("10.0.0.0/8", "11.1.2.3", False),
        ("[fd00::1]:443", "fd00::1", True),
        ("fd00::/8", "fd00::1", True),
        ("1.2.3.4", "a.1.2.3.4.example", False),
    ],
)
def test_exemptions(exemptions: str, host: str, is_exempt: bool) -> None:
    found = proxy_url("https", host, 443, {"HTTPS_PROXY": PROXY, "NO_PROXY": exemptions})
    assert (found is None) == is_exempt


def test_this_machine_is_exempt_for_other_libraries_too() -> None:
    environ = {"https_proxy": PROXY, "no_proxy": "a.test,localhost"}
    exempt_loopback(environ)
    assert environ["NO_PROXY"] == environ["no_proxy"] == "a.test,localhost,127.0.0.1,127.0.0.0/8,::1"
    without: dict[str, str] = {}
    exempt_loopback(without)
    assert without == {}


def test_what_cannot_be_used_is_named_without_passwords(tmp_path: Path) -> None:
    empty = tmp_path / "empty.pem"
    empty.write_text("nothing")
    socks = network_problems({"ALL_PROXY": "socks5://anna:secret@proxy:1080"})
    assert "HTTPS_PROXY" in socks[0]
    assert "secret" not in "".join(socks)
    assert network_problems({"ALL_PROXY": "socks5://proxy:1080", "HTTPS_PROXY": PROXY, "HTTP_PROXY": PROXY}) == ()
    assert "No such file" in network_problems({"SSL_CERT_FILE": str(tmp_path / "missing.pem")})[0]
    assert "PEM" in network_problems({"SSL_CERT_FILE": str(empty)})[0]
    assert "not a folder" in network_problems({"SSL_CERT_DIR": str(empty)})[0]
    assert network_problems({}) == ()
