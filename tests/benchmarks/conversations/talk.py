"""What is said in the conversations of the benchmarks."""

import random
import string

import httpx

from tests.support.providers.script import Call

TOOLS = ["actors", "docs", "get-dataset-items"]
TEXT_CHARS = 3_900
"""Of each answer: with a call and its row, and with a question, a step adds about five kilobytes."""
QUESTION_CHARS = 1_100
ROW_CHARS = 900


def text(seed: int, length: int) -> str:
    """Words that no compression makes much shorter, always the same ones."""
    return "".join(random.Random(seed).choices(string.ascii_letters + " ", k=length))


def row_call(dataset: str, position: int) -> Call:
    """A call that reads one row, in each step another one."""
    return Call("get-dataset-items", {"datasetId": dataset, "offset": position, "limit": 1})


async def new_session(api: httpx.AsyncClient) -> str:
    """A session with the scripted model."""
    answer = await api.post("/v1/sessions", json={"providerId": "generic", "modelId": "m", "tools": TOOLS})
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]
