"""Heartbeats of an activity, in Temporal's own test environment for activities."""

import asyncio
from datetime import timedelta

import pytest
from temporalio.testing import ActivityEnvironment

from outlast.activities.heartbeat import heartbeating

SHORT = timedelta(milliseconds=20)


def environment() -> ActivityEnvironment:
    """An activity with a short heartbeat timeout."""
    found = ActivityEnvironment()
    found.info = ActivityEnvironment.default_info().__class__(
        **{**vars(ActivityEnvironment.default_info()), "heartbeat_timeout": SHORT}
    )
    return found


async def test_a_block_that_takes_long_sends_heartbeats_with_the_latest_details() -> None:
    sent: list[object] = []
    heard = asyncio.Event()

    def on_heartbeat(*details: object) -> None:
        sent.append(details)
        heard.set()

    async def block() -> None:
        async with heartbeating() as heartbeats:
            heartbeats.set_details("row 7")
            await heard.wait()

    activity = environment()
    activity.on_heartbeat = on_heartbeat
    await activity.run(block)
    assert sent[0] == ("row 7",)


async def test_an_error_of_the_heartbeats_ends_the_block_and_is_raised() -> None:
    def on_heartbeat(*_: object) -> None:
        raise ValueError("the details cannot be encoded")

    async def block() -> None:
        async with heartbeating():
            await asyncio.Event().wait()

    activity = environment()
    activity.on_heartbeat = on_heartbeat
    with pytest.raises(ValueError, match="cannot be encoded"):
        await asyncio.wait_for(activity.run(block), 10)


async def test_an_error_of_the_block_is_raised_as_it_is() -> None:
    error = KeyError("mine")

    async def block() -> None:
        async with heartbeating():
            raise error

    with pytest.raises(KeyError) as caught:
        await environment().run(block)
    assert caught.value is error


async def test_a_cancellation_of_the_block_stays_a_cancellation() -> None:
    began = asyncio.Event()

    async def block() -> None:
        async with heartbeating():
            began.set()
            await asyncio.Event().wait()

    activity = environment()
    running = asyncio.create_task(activity.run(block))
    await began.wait()
    activity.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
