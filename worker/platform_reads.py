"""The quick reads of the platform, which workers and the API carry out, see `activities.local_reads`."""

from collections.abc import Callable, Sequence
from typing import Any

from outlast.activities.actors.activities import ActorActivities
from outlast.activities.platform.apify_platform import ApifyPlatform
from outlast.activities.platform_requests.activities import PlatformReadActivities
from outlast.activities.runs.reads import RunLogActivities
from outlast.activities.storages.datasets import DatasetActivities
from outlast.activities.storages.listings import ListingActivities
from outlast.activities.storages.records import RecordActivities


def platform_reads(platform: ApifyPlatform) -> Sequence[Callable[..., Any]]:
    """Those that change nothing and are paid by nobody."""
    actors, datasets = ActorActivities(platform), DatasetActivities(platform)
    listings, records = ListingActivities(platform), RecordActivities(platform)
    return (
        datasets.fetch_dataset_items,
        datasets.infer_dataset_schema,
        RunLogActivities(platform).fetch_run_log,
        actors.search_actors,
        actors.fetch_actor_details,
        listings.list_runs,
        listings.describe_dataset,
        listings.list_datasets,
        listings.describe_key_value_store,
        listings.list_key_value_stores,
        listings.list_keys,
        records.fetch_record,
        PlatformReadActivities(platform).read_platform,
    )
