"""What is read of the platform's API: no keys for signing, no signatures, no addresses that no server takes."""

import pytest

from outlast.activities.failures.classify import ToolFailure
from outlast.activities.platform.apify_platform import ApifyPlatform
from outlast.activities.platform_requests.activities import unsigned, url_of_path
from outlast.activities.secrets import SecretSealer

PLATFORM = ApifyPlatform(api_base_url="https://api", operator_token=None, sealer=SecretSealer.ephemeral())


def test_nothing_by_which_a_reader_of_the_history_could_read_a_storage() -> None:
    found = {
        "id": "x",
        "urlSigningSecretKey": "hidden",
        "itemsPublicUrl": "https://api/v2/datasets/x/items?signature=hidden&limit=5",
        "items": [{"recordPublicUrl": "https://api/v2/records/INPUT?signature=hidden", "note": "signature=kept"}],
        "odd": "https://[broken?signature=hidden",
    }
    shown = unsigned(found)
    assert isinstance(shown, dict)
    assert {key: value for key, value in shown.items() if key != "odd"} == {
        "id": "x",
        "itemsPublicUrl": "https://api/v2/datasets/x/items?limit=5",
        "items": [{"recordPublicUrl": "https://api/v2/records/INPUT", "note": "signature=kept"}],
    }


def test_an_id_stays_one_segment_of_the_path() -> None:
    assert url_of_path(PLATFORM, ("acts", "user/na me", "runs")) == "https://api/v2/acts/user~na%20me/runs"
    assert url_of_path(PLATFORM, ("datasets", "../../users")) == "https://api/v2/datasets/..~..~users"
    for other in ("", ".", ".."):
        with pytest.raises(ToolFailure, match="There is no"):
            url_of_path(PLATFORM, ("datasets", other))
    with pytest.raises(ToolFailure, match="The limit is 1000"):
        url_of_path(PLATFORM, ("datasets", "x" * 2_000))
