"""Failures for ids that do not exist. They say when an id belongs to another kind of object: models mix up the ids of
runs, datasets and key-value stores.
"""

import asyncio
import re
from typing import Literal

from outlast.activities.failures.classify import ToolFailure
from outlast.activities.failures.contracts import ErrorCategory
from outlast.activities.platform import apify

Kind = Literal["run", "dataset", "key-value store"]

_ID = re.compile(r"[A-Za-z0-9]{10,25}")
_CHECK = "Check the id; it may have been deleted or belong to another account."


def not_found(message: str, hint: str = _CHECK) -> ToolFailure:
    """A failure of the category `not_found`, which is not retried."""
    return ToolFailure.of(ErrorCategory.NOT_FOUND, message, hint)


async def explain_not_found(client: "apify.ApifyClientAsync", wanted: Kind, given: str) -> ToolFailure:
    """The failure for a `wanted` with the id `given` that does not exist; it says what else has this id.

    A run is wanted for its log: a run that exists has none.
    """
    message = f"There is no {wanted} {given!r}."
    if not _ID.fullmatch(given):
        return not_found(message)
    # A lookup that fails is ignored: the answer is "not found" in any case.
    run, dataset, store = await asyncio.gather(
        client.run(given).get(),
        client.dataset(given).get(),
        client.key_value_store(given).get(),
        return_exceptions=True,
    )
    if wanted == "run" and run is not None and not isinstance(run, BaseException):
        return not_found(f"Run {given!r} has no log.", "It has written nothing, or its log was deleted.")
    if run is not None and not isinstance(run, BaseException):
        ids = f"its dataset is {run.default_dataset_id}, its key-value store {run.default_key_value_store_id}"
        return not_found(f"{message} It is the id of a run: {ids}.", "Call again with the id of the storage.")
    for other, found in (("dataset", dataset), ("key-value store", store)):
        if other != wanted and found is not None and not isinstance(found, BaseException):
            return not_found(f"{message} It is the id of a {other}.", f"Use the tools for a {other}.")
    return not_found(message)
