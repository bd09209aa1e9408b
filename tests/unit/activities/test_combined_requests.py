"""Concurrent requests for the same work share one, which continues when one of them is cancelled."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from decimal import Decimal
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pydantic import SecretStr
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from outlast.activities.contracts import Caller
from outlast.activities.platform.apify_platform import ApifyPlatform
from outlast.activities.secrets import SecretSealer
from outlast.activities.spending.contracts import Settlement, Spend
from outlast.activities.spending.ledger import Ledgers
from outlast.activities.webhooks.contracts import EnqueueInput, QueueSummary
from outlast.activities.webhooks.queues import WebhookQueues
from outlast.activities.workflow_requests import until_accepted
from outlast.api.access.callers import CallerResolver
from outlast.api.access.oauth.access_tokens import IssuerKeys, KeySet
from outlast.api.access.policy.source import PolicySource
from outlast.api.rest.operator_routes import KeptAnswer
from outlast.api.settings import ApiSettings
from outlast.workflows.handler_api.activity_calls import outlasting_cancellation
from tests.support.http.issuer import SigningKey

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ANN = Caller(id="key:ann")


class Slow:
    """Something that answers when it may, and counts what it was given. It stands for Temporal's server, too."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.begun: list[Any] = []
        self.done = 0

    async def work(self, given: Any = None) -> str:
        self.begun.append(given)
        await self.may_answer.wait()
        self.done += 1
        return "answer"

    async def start_workflow(self, *_: object, start_signal_args: list[Any], **__: object) -> None:
        await self.work(start_signal_args[0])

    def get_workflow_handle(self, _: str) -> "Slow":
        return self

    async def describe(self) -> Any:
        await self.work()
        raise RPCError("none", RPCStatusCode.NOT_FOUND, b"")


async def as_far_as_it_goes() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def waiting(number: int) -> EnqueueInput:
    return EnqueueInput(
        receiver="hook",
        delivery_id=f"d{number}",
        event_at=NOW,
        since=NOW,
        now=NOW,
        most_waiting=10,
        most_tests=1,
        first_pause_seconds=1,
        give_up_seconds=1,
    )


def settlement(number: int) -> Settlement:
    return Settlement(spend=Spend(entry_id=f"e{number}"), cost_usd=Decimal(1))


Waits = Callable[[int], Awaitable[Any]]


def kept(slow: Slow) -> Waits:
    answer = KeptAnswer(slow.work)
    return lambda _: answer.get()


def known_queue(slow: Slow) -> Waits:
    queues = WebhookQueues(cast(Client, slow), task_queue="q")
    return lambda _: queues.known(ANN.id)


def account(slow: Slow) -> Waits:
    """Requests with the same token, whose account is looked up once."""

    async def get() -> Any:
        return SimpleNamespace(id=await slow.work())

    user = SimpleNamespace(get=get)
    platform = SimpleNamespace(client_for_unknown_token=lambda _: SimpleNamespace(user=lambda _: user))
    settings = ApiSettings.model_validate({"accept_apify_tokens": True})
    policy = PolicySource(None, base=settings.policy)
    callers = CallerResolver(settings, policy, cast(ApifyPlatform, platform), SecretSealer.ephemeral())

    async def wait(_: int) -> str:
        return (await callers.resolve(SecretStr("apify_api_" + 36 * "a"))).caller.id

    return wait


def issuer_keys(slow: Slow) -> Waits:
    key = SigningKey(key_id="k")

    async def read() -> KeySet:
        await slow.work()
        return KeySet.parse({"keys": [key.public]})

    keys = IssuerKeys(read)

    async def wait(_: int) -> str | None:
        found = await keys.find("k", "ES256")
        return found.key_id if found is not None else None

    return wait


@pytest.mark.parametrize(
    ("work", "answer"),
    [(kept, "answer"), (known_queue, QueueSummary()), (account, "apify:answer"), (issuer_keys, "k")],
)
@pytest.mark.parametrize("leaves", [0, 1])
async def test_whoever_leaves_takes_the_answer_from_nobody(
    work: Callable[[Slow], Waits], answer: object, leaves: int
) -> None:
    slow = Slow()
    wait = work(slow)
    both = [asyncio.ensure_future(wait(number)) for number in range(2)]
    await as_far_as_it_goes()
    both[leaves].cancel()
    await as_far_as_it_goes()
    assert both[leaves].cancelled()
    slow.may_answer.set()
    assert await both[1 - leaves] == answer
    assert (len(slow.begun), slow.done) == (1, 1)


def settling(slow: Slow) -> Waits:
    ledgers = Ledgers(cast(Client, slow), task_queue="q")
    return lambda number: ledgers.settle(ANN, settlement(number))


def enqueuing(slow: Slow) -> Waits:
    queues = WebhookQueues(cast(Client, slow), task_queue="q")
    return lambda number: queues.enqueue(ANN.id, waiting(number))


@pytest.mark.parametrize("work", [settling, enqueuing])
async def test_what_was_sent_together_arrives_also_for_those_that_were_cancelled(work: Callable[[Slow], Waits]) -> None:
    slow = Slow()
    wait = work(slow)
    first, *others = [asyncio.ensure_future(wait(number)) for number in range(4)]
    await as_far_as_it_goes()
    first.cancel()  # Its entry is on its way; the others gather for the next signal.
    await as_far_as_it_goes()
    others[0].cancel()
    await as_far_as_it_goes()
    slow.may_answer.set()
    await asyncio.gather(*others[1:])
    assert (first.cancelled(), others[0].cancelled()) == (True, True)
    sent = [len(together.entries) for together in slow.begun]
    assert (sum(sent), slow.done) == (4, len(sent))


async def test_a_failure_to_send_reaches_everybody_whose_entry_was_in_it() -> None:
    class Away(Slow):
        async def work(self, given: Any = None) -> str:
            await super().work(given)
            raise RPCError("away", RPCStatusCode.UNAVAILABLE, b"")

    slow = Away()
    wait = settling(slow)
    all_of_them = [asyncio.ensure_future(wait(number)) for number in range(3)]
    await as_far_as_it_goes()
    slow.may_answer.set()
    failures = await asyncio.gather(*all_of_them, return_exceptions=True)
    assert [type(failure) for failure in failures] == [RPCError] * 3


@pytest.mark.parametrize("cancels", [False, True])
async def test_what_ends_after_its_call_was_cancelled_is_still_told(*, cancels: bool) -> None:
    """A start may be accepted meanwhile: its run has to be known, so that it can be aborted."""
    told: list[str] = []
    may_end, asked_to_stop = asyncio.Event(), False

    async def start() -> str:
        nonlocal asked_to_stop
        try:
            await may_end.wait()
        except asyncio.CancelledError:
            asked_to_stop = True
        await may_end.wait()
        return "run"

    handle = cast(Any, asyncio.ensure_future(start()))
    call = asyncio.ensure_future(outlasting_cancellation(handle, told.append, cancels=cancels))
    await as_far_as_it_goes()
    call.cancel()
    await as_far_as_it_goes()
    assert (told, call.done(), asked_to_stop) == ([], False, cancels)
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert told == ["run"]


async def test_an_update_is_sent_again_until_temporal_takes_it() -> None:
    refusals = [RPCStatusCode.UNAVAILABLE, RPCStatusCode.FAILED_PRECONDITION]

    async def send() -> str:
        if refusals:
            raise RPCError("Workflow Task in failed state.", refusals.pop(), b"")
        return "placed"

    assert await until_accepted(send, pause_seconds=0) == "placed"


async def test_an_update_that_is_refused_is_not_sent_again() -> None:
    sent: list[None] = []

    async def send() -> None:
        sent.append(None)
        raise RPCError("no such workflow", RPCStatusCode.NOT_FOUND, b"")

    with pytest.raises(RPCError):
        await until_accepted(send, pause_seconds=0)
    assert len(sent) == 1
