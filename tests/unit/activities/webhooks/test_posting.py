"""Posts go where the rules on fetched addresses allow it, by the address that was judged."""

import asyncio
import socket
import threading
from typing import Any

import pytest

from outlast.activities.web.address_rules import AddressRules
from outlast.activities.webhooks.posting import Posted, PostOutcome, WebhookPoster
from tests.support.http.hostile_receiver import answering
from tests.support.http.webhooks import receiving_webhooks

CLOUD = "http://169.254.169.254/latest/meta-data"


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8080/secret-path",
        "http://localhost:8080/secret-path",
        "http://10.0.0.1/secret-path",
        "http://[::1]/secret-path",
        "http://[::ffff:127.0.0.1]/secret-path",
        "http://2130706433/secret-path",
        CLOUD,
        "file:///secret-path",
        "http://user:password@example.com/secret-path",
        "http://example.com:22/secret-path",
    ],
)
async def test_addresses_that_are_not_public_are_not_posted_to_nor_named(url: str) -> None:
    async with WebhookPoster(AddressRules(), timeout_seconds=2) as poster:
        posted = await poster.post(url, b"{}", {})
    assert posted.outcome is PostOutcome.FORBIDDEN
    assert "secret-path" not in posted.message
    assert "password" not in posted.message


async def test_private_addresses_are_posted_to_where_the_operator_allows_it_and_those_of_clouds_never() -> None:
    async with WebhookPoster(AddressRules(allow_private=True), timeout_seconds=60) as poster:
        with receiving_webhooks() as receiver:
            assert (await poster.post(receiver.url, b'{"a":1}', {"webhook-id": "evt_1"})).status == 200
            assert receiver.received[0].raw == b'{"a":1}'
            assert receiver.received[0].headers["webhook-id"] == "evt_1"
        assert (await poster.post(CLOUD, b"{}", {})).outcome is PostOutcome.FORBIDDEN


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(status: int) -> None:
    with receiving_webhooks() as elsewhere:
        head = f"HTTP/1.1 {status} Elsewhere\r\nLocation: {elsewhere.url}\r\nContent-Length: 0\r\n\r\n"
        async with (
            WebhookPoster(AddressRules(allow_private=True), timeout_seconds=600) as poster,
            answering(head.encode()) as receiver,
        ):
            posted = await poster.post(receiver.url, b"{}", {})
    assert (posted.outcome, posted.status) == (PostOutcome.REFUSED, status)
    assert elsewhere.received == []


async def test_a_receiver_that_resets_the_connection_or_answers_no_handshake_is_left() -> None:
    async with (
        WebhookPoster(AddressRules(allow_private=True), timeout_seconds=0.3) as poster,
        answering(resets=True) as receiver,
    ):
        assert (await poster.post(receiver.url, b"{}", {})).outcome is PostOutcome.UNREACHABLE
        secure = receiver.url.replace("http:", "https:")
        assert (await poster.post(secure, b"{}", {})).outcome is PostOutcome.TIMEOUT


async def test_a_receiver_that_hangs_or_breaks_off_is_left_in_time() -> None:
    with receiving_webhooks() as receiver:
        async with WebhookPoster(AddressRules(allow_private=True), timeout_seconds=0.3) as poster:
            receiver.answers += [-1]
            assert (await poster.post(receiver.url, b"{}", {})).outcome is PostOutcome.TIMEOUT
    async with WebhookPoster(AddressRules(allow_private=True), timeout_seconds=30) as poster:
        with receiving_webhooks() as receiver:
            receiver.answers += [0]
            assert (await poster.post(receiver.url, b"{}", {})).outcome is PostOutcome.UNREACHABLE
        assert (await poster.post(receiver.url, b"{}", {})).outcome is PostOutcome.UNREACHABLE


@pytest.mark.parametrize(
    ("begin", "rest"),
    [
        (b"", b"HTTP/1.1 103 Early Hints\r\n\r\n" * 1_000),
        (b"HTTP/1.1 200 OK\r\n", b"x-header: value\r\n" * 1_000),
        (b"HTTP/1.1 200 ", b"O" * 10_000),
        (b"", b"\0" * 10_000),
    ],
    ids=["interim answers", "headers", "a status line", "no HTTP"],
)
async def test_an_answer_without_end_is_left_after_few_bytes(begin: bytes, rest: bytes) -> None:
    async with (
        WebhookPoster(AddressRules(allow_private=True), timeout_seconds=600) as poster,
        answering(begin, rest) as receiver,
    ):
        assert (await poster.post(receiver.url, b"{}", {})).outcome is PostOutcome.UNREACHABLE
        await receiver.left.wait()


async def test_of_an_answer_with_a_huge_body_the_status_counts_and_the_body_is_not_read() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n"
    async with (
        WebhookPoster(AddressRules(allow_private=True), timeout_seconds=600) as poster,
        answering(head, b"x" * 65_536) as receiver,
    ):
        assert await poster.post(receiver.url, b"{}", {}) == Posted(PostOutcome.DELIVERED, 200)
        await receiver.left.wait()
        assert receiver.sent < 50_000_000, "what the buffers of the system hold"


async def test_an_answer_that_comes_byte_by_byte_is_left_in_time() -> None:
    async with (
        WebhookPoster(AddressRules(allow_private=True), timeout_seconds=0.3) as poster,
        answering(b"HTTP/1.1 200 OK\r\nx: ", b"x", pause_seconds=0.01) as receiver,
    ):
        assert (await poster.post(receiver.url, b"{}", {})).outcome is PostOutcome.TIMEOUT
        await receiver.left.wait()


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 20 OK\r\n\r\n", b"SSH-2.0-OpenSSH\r\n", b"\x16\x03\x01\x02", b"\r\n\r\n"]
)
async def test_an_answer_that_is_no_http_is_no_delivery(answer: bytes) -> None:
    async with (
        WebhookPoster(AddressRules(allow_private=True), timeout_seconds=600) as poster,
        answering(answer) as receiver,
    ):
        assert (await poster.post(receiver.url, b"{}", {})).outcome is PostOutcome.UNREACHABLE


async def test_a_name_server_that_does_not_answer_holds_up_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    answers, asked, found = threading.Event(), threading.Semaphore(0), socket.getaddrinfo

    def look_up(host: str, *more: Any, **named: Any) -> Any:
        if host.endswith(".example"):
            asked.release()
            answers.wait()
        return found("127.0.0.1" if host.endswith(".example") else host, *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    async with WebhookPoster(AddressRules(allow_private=True), timeout_seconds=600) as poster:
        with receiving_webhooks() as receiver:
            hosts = [f"http://silent{number}.example/hooks" for number in range(40)]
            waiting = [asyncio.create_task(poster.post(url, b"{}", {})) for url in hosts]
            try:
                async with asyncio.timeout(60):
                    for _ in hosts:
                        while not asked.acquire(blocking=False):
                            await asyncio.sleep(0)
                    assert await asyncio.to_thread(lambda: "other work") == "other work"
                    assert (await poster.post(receiver.url, b"{}", {})).outcome is PostOutcome.DELIVERED
            finally:
                answers.set()
                await asyncio.gather(*waiting)
