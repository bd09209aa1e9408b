"""The response models of apify-client that the activities use.

apify-client 3.4 returns these models and does not export their names. Only this module imports its private one, and
`pyproject.toml` allows no other minor version: names may change with the next one.
"""

from apify_client._models import (
    ActorNotice,
    ActorResource,
    ActorStats,
    DatasetListItem,
    DatasetResource,
    KeyValueStoreResource,
    Run,
    StoreActor,
)

__all__ = [
    "ActorNotice",
    "ActorResource",
    "ActorStats",
    "DatasetListItem",
    "DatasetResource",
    "KeyValueStoreResource",
    "Run",
    "StoreActor",
]
