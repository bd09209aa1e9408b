import socket
from collections.abc import Iterator

import pytest

from outlast.deploy.local.errors import PortTakenError
from outlast.deploy.local.ports import PortPicker, PortWish, any_free

HOST = "127.0.0.1"


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server((HOST, 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def changes() -> list[int]:
    return []


@pytest.fixture
def picker(changes: list[int]) -> PortPicker:
    return PortPicker(HOST, lambda wish, port: changes.append(port))


def test_a_free_default_is_used_without_a_word(picker: PortPicker, changes: list[int]) -> None:
    free = any_free(HOST)
    assert picker.pick(PortWish("API", "--api-port", free)) == free
    assert changes == []


def test_a_taken_default_gives_way_and_it_is_said(picker: PortPicker, changes: list[int], taken_port: int) -> None:
    picked = picker.pick(PortWish("API", "--api-port", taken_port))
    assert picked != taken_port
    assert changes == [picked]


def test_the_last_stacks_port_is_preferred_to_any_other(picker: PortPicker, taken_port: int) -> None:
    previous = any_free(HOST)
    assert picker.pick(PortWish("API", "--api-port", taken_port, previous=previous)) == previous


def test_a_port_asked_for_by_name_is_refused_when_taken(picker: PortPicker, taken_port: int) -> None:
    with pytest.raises(PortTakenError, match=rf"Port {taken_port} on 127\.0\.0\.1.*API.*--api-port"):
        picker.pick(PortWish("API", "--api-port", any_free(HOST), requested=taken_port))


def test_zero_asks_for_any_free_port(picker: PortPicker, changes: list[int]) -> None:
    assert picker.pick(PortWish("API", "--api-port", any_free(HOST), requested=0)) > 0
    assert changes == []


def test_zero_asked_for_twice_is_never_the_same_port(picker: PortPicker, monkeypatch: pytest.MonkeyPatch) -> None:
    first = any_free(HOST)
    second = next(port for port in iter(lambda: any_free(HOST), None) if port != first)
    by_chance = iter([first, first, second])
    monkeypatch.setattr("outlast.deploy.local.ports.any_free", lambda host: next(by_chance))
    wishes = [PortWish(name, "--port", default=0, requested=0) for name in ("API", "UI")]
    assert [picker.pick(wish) for wish in wishes] == [first, second]


def test_no_port_is_given_twice(picker: PortPicker) -> None:
    free = any_free(HOST)
    assert picker.pick(PortWish("API", "--api-port", free)) == free
    assert picker.pick(PortWish("UI", "--ui-port", free)) != free
