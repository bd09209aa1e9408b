"""The blocking and the asynchronous client: the same methods, parameters and documentation."""

import inspect
from typing import Any

import pytest

from outlast.client.asynchronous.batches import AsyncBatches
from outlast.client.asynchronous.client import AsyncClient
from outlast.client.asynchronous.outputs import AsyncOutputs
from outlast.client.asynchronous.saved_calls import AsyncSavedCalls
from outlast.client.asynchronous.schedules import AsyncSchedules
from outlast.client.asynchronous.sessions import AsyncSessions
from outlast.client.asynchronous.webhooks import AsyncWebhooks
from outlast.client.blocking.batches import Batches
from outlast.client.blocking.client import Client
from outlast.client.blocking.outputs import Outputs
from outlast.client.blocking.saved_calls import SavedCalls
from outlast.client.blocking.schedules import Schedules
from outlast.client.blocking.sessions import Sessions
from outlast.client.blocking.webhooks import Webhooks

PAIRS = [
    (Client, AsyncClient),
    (Batches, AsyncBatches),
    (Outputs, AsyncOutputs),
    (SavedCalls, AsyncSavedCalls),
    (Schedules, AsyncSchedules),
    (Sessions, AsyncSessions),
    (Webhooks, AsyncWebhooks),
]


def public_members(kind: type) -> dict[str, Any]:
    return {name: member for name, member in vars(kind).items() if not name.startswith("_")}


def parameters(member: Any) -> list[inspect.Parameter]:
    """Names, kinds, defaults and types; none of a property."""
    return [] if isinstance(member, property) else list(inspect.signature(member).parameters.values())


@pytest.mark.parametrize(("blocking", "asynchronous"), PAIRS)
def test_both_have_the_same_methods_with_the_same_parameters(blocking: type, asynchronous: type) -> None:
    ours = {name: parameters(member) for name, member in public_members(blocking).items()}
    theirs = {name: parameters(member) for name, member in public_members(asynchronous).items()}
    assert ours == theirs


def test_both_are_constructed_alike() -> None:
    assert parameters(Client.__init__) == parameters(AsyncClient.__init__)


@pytest.mark.parametrize(("blocking", "asynchronous"), PAIRS)
def test_both_document_their_methods_alike(blocking: type, asynchronous: type) -> None:
    ours = {name: inspect.getdoc(member) for name, member in public_members(blocking).items()}
    theirs = {name: inspect.getdoc(member) for name, member in public_members(asynchronous).items()}
    assert ours == theirs
