"""How exceptions leave an activity."""

import pytest
from temporalio.exceptions import ApplicationError

from outlast.activities.failures.classify import as_activity_failure


def test_an_error_of_temporal_takes_no_other_error_into_the_history() -> None:
    with pytest.raises(ApplicationError, match="Somebody else goes on") as raised, as_activity_failure():
        try:
            raise ValueError("apify_api_token")
        except ValueError as error:
            raise ApplicationError("Somebody else goes on.") from error
    assert raised.value.__cause__ is None
