"""A tool of which it may be unknown whether it did its work."""

from pathlib import Path
from uuid import uuid4

from outlast import tool
from outlast.activities.contracts import ErrorCategory
from outlast.activities.failures.classify import ToolFailure


@tool(retries=0)
def charge(folder: str) -> int:
    """Charge a card, and return the number of charges. The answer to the first one is lost."""
    charges = Path(folder)
    charges.joinpath(uuid4().hex).touch()
    count = len(list(charges.iterdir()))
    if count == 1:
        message = "The connection was lost while the card was being charged."
        raise ToolFailure.of(ErrorCategory.OUTCOME_UNKNOWN, message, "Check the account.", retryable=False)
    return count
