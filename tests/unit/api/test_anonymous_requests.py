"""How many requests without a credential an address may send, and for how long further ones are held back."""

from contextlib import ExitStack

import pytest

from outlast.api.access.limits.rate_limits import UNKNOWN, AnonymousRequests, address_of, network_of


def test_an_address_may_send_some_at_once_and_then_so_many_a_second() -> None:
    now = 0.0
    requests = AnonymousRequests(2, lambda: now)
    assert [requests.take("192.0.2.1") for _ in range(10)] == [0] * 10
    assert requests.take("192.0.2.1") == pytest.approx(0.5)
    assert requests.take("192.0.2.2") == 0
    now = 1.0
    assert [requests.take("192.0.2.1") > 0 for _ in range(3)] == [False, False, True]


def test_all_addresses_of_one_ipv6_network_are_one() -> None:
    requests = AnonymousRequests(0.2, lambda: 0.0)
    assert requests.take("2001:db8:0:1::1") == 0
    assert requests.take("2001:db8:0:1:ffff::9") > 0
    assert requests.take("2001:db8:0:2::1") == 0


def test_the_more_answers_are_held_back_the_longer_each_is() -> None:
    requests = AnonymousRequests(1, lambda: 0.0)
    with ExitStack() as held:
        seconds = [held.enter_context(requests.held("192.0.2.1")) for _ in range(200)]
        assert seconds[0] == pytest.approx(0.01)
        assert seconds[-1] == pytest.approx(2)
        assert held.enter_context(requests.held("192.0.2.2")) == pytest.approx(0.01)
    with requests.held("192.0.2.1") as again:
        assert again == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("given", "address", "network"),
    [
        ("192.0.2.1", "192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1", "192.0.2.1"),
        ("2001:db8::1%eth0", "2001:db8::1", "2001:db8::/64"),
        ("2001:DB8:0:0::1", "2001:db8::1", "2001:db8::/64"),
        ("not an address" * 1_000, UNKNOWN, UNKNOWN),
        ("", UNKNOWN, UNKNOWN),
    ],
)
def test_an_address_has_one_form(given: str, address: str, network: str) -> None:
    assert address_of({"client": (given, 1)}) == address
    assert network_of(given) == network


def test_a_client_without_an_address_is_unknown() -> None:
    assert address_of({}) == address_of({"client": None}) == UNKNOWN
