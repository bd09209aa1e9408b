"""Tools that hand their secrets out in every way: each value contains `PLANTED`, which no test may find anywhere."""

import asyncio
import base64
import json
import logging
import sys
import threading
import warnings
from typing import Annotated, Any, Literal
from urllib.parse import quote, quote_plus

from pydantic import Field

from outlast import ErrorCategory, SyncToolContext, ToolContext, ToolFailure, tool

PLANTED = "PlantedInASecretOfATool0123456789"
KEY = f'sk "{PLANTED}"+/é&end'
"""The variable LEAK_KEY."""
PEM = f"-----BEGIN KEY-----\nfirst{PLANTED}line\n\nsecond{PLANTED}=\n-----END KEY-----"
"""The file that LEAK_PEM_FILE names."""


def same(value: Any) -> Any:
    """A step that returns its argument."""
    return value


def charge(key: Any) -> str:
    """A step that takes a secret."""
    return type(key).__name__


def refused(text: str) -> None:
    """A step that fails with the secret in its message, behind as much as an error may have."""
    raise LookupError("x" * 1_990 + text)


async def never_awaited(text: str) -> None:
    raise LookupError(text)


def log_and_print(*texts: str) -> None:
    for text in texts:
        logging.getLogger("of.the.author").warning("key %s", text)
        logging.getLogger("of.the.author").warning("key %r", {"nested": [text]})
        print(text)  # noqa: T201 (as authors do)
        sys.stderr.write(f"{text}\n")
        warnings.warn(text, stacklevel=1)
        thread = threading.Thread(target=refused, args=(text,))
        thread.start()
        thread.join()


@tool(secrets=["LEAK_KEY", "LEAK_PEM"])
async def leak(ctx: ToolContext) -> dict[str, Any]:
    """Hand out the secrets by all that a context has, and in the answer."""
    key = ctx.secret("LEAK_KEY").get_secret_value()
    pem = ctx.secret("LEAK_PEM").get_secret_value()
    ctx.log(f"The key is {key}", key=key, pem=pem, secret=ctx.secret("LEAK_KEY"))
    log_and_print(key, pem)
    recorded = await ctx.step(same, {key: [key, {"pem": pem}]})
    kind = await ctx.step(charge, ctx.secret("LEAK_KEY"))
    caught = ""
    try:
        await ctx.step(refused, key)
    except LookupError as error:
        caught = str(error)
    lost = asyncio.create_task(never_awaited(pem))
    await asyncio.wait([lost])
    del lost
    ctx.progress(1, total=3, message="x" * 490 + key)
    answer = await ctx.ask(f"Is it {key}?", Annotated[Literal["yes", "no"], Field(description=pem)])
    ctx.progress(2, total=3, message=pem)
    await ctx.approve(f"Use {pem}?", {"key": key, key: {"deep": [pem]}})
    return {
        "answer": answer,
        "kind": kind,
        "recorded": recorded,
        "caught": caught,
        key: key,
        "spellings": [
            pem, json.dumps(key), json.dumps(pem, ensure_ascii=False), repr(pem), quote(key), quote_plus(key),
            " ".join(pem.split()), key.encode().hex(), base64.b64encode(f"user:{key}".encode()).decode(),
            base64.urlsafe_b64encode(f"u:{key}:u".encode()).decode(), *pem.splitlines(),
        ],
    }  # fmt: skip


@tool(secrets=["LEAK_KEY"], retries=1, backoff=0.1, retry_on=(ConnectionResetError,))
def leak_by_error(kind: str, ctx: SyncToolContext) -> str:
    """Fail with the secret in the error."""
    key = ctx.secret("LEAK_KEY").get_secret_value()
    if kind == "failure":
        raise ToolFailure.of(ErrorCategory.NOT_FOUND, f"No {key}.", hint=f"Not {key}.")
    if kind == "retried":
        raise ConnectionResetError("x" * 1_900 + key)
    if kind == "class":
        raise type(key, (Exception,), {})(key)
    error = LookupError(f"password=1 {key}")
    error.add_note(key)
    raise error from ValueError(key)


@tool(secrets=["LEAK_KEY"])
def leak_by_question(ctx: SyncToolContext) -> str:
    """Ask with the secret, and tell how nobody has answered."""
    return ctx.ask(f"{ctx.secret('LEAK_KEY').get_secret_value()}?")


@tool(secrets=["ABSENT_KEY"], approval="Allow it?")
async def needs_more(ctx: ToolContext) -> str:
    """Need a secret that the worker lacks."""
    return ctx.secret("ABSENT_KEY").get_secret_value()


@tool(secrets=["LEAK_KEY"])
async def undeclared(ctx: ToolContext) -> str:
    """Read a secret that is not declared."""
    return ctx.secret("LEAK_PEM").get_secret_value()
