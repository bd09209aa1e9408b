"""What a model writes as arguments is foreign text: its size and shape harm no turn, and the model learns of them."""

from typing import Any

import httpx
import pytest

from tests.support.calls.turns import named, new_session, streamed, text_of
from tests.support.providers.script import Call, by_position, says
from tests.support.providers.server import ProviderServer

_DEEP: Any = "Ann"
for _ in range(400):
    _DEEP = {"a": _DEEP}


@pytest.mark.parametrize(
    ("name", "told"),
    [("x" * 300_000, "too long with 300012 characters"), (_DEEP, "no JSON object"), ([{}] * 60_000, "/name")],
    ids=["long", "deep", "many"],
)
async def test_a_model_reads_what_is_wrong_with_arguments_of_any_size(
    api: httpx.AsyncClient, provider: ProviderServer, name: Any, told: str
) -> None:
    provider.script = by_position(says(Call("hello_world", {"name": name})), says("Well."))
    session = await new_session(api)
    seen = [event async for event in streamed(api, session, "Greet them.")]
    assert text_of(seen).endswith("Well.")
    (result,) = named(seen, "tool-result")
    assert (result["is_error"], told in result["preview"]) == (True, True), result["preview"][:500]
    assert len(result["preview"]) < 5_000
