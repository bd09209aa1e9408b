"""What the worker may read of the web, from its settings."""

from activities.docs_library import DocsLibrary, DocsSite, DocsTiming
from activities.html_skeletons import HtmlSkeletons
from activities.web import WebActivities
from activities.web_addresses import AddressRules, WebAddress
from activities.web_pages import WebFetcher
from worker.settings import WorkerSettings


def web_activities(settings: WorkerSettings) -> WebActivities:
    """The activities with their rules. Raises `AddressRefused` for a setting that is no web address."""
    sites = docs_sites(settings)
    rules = AddressRules(
        sites=tuple(site.root for site in sites),
        # Naming a site is what lets it be on a private address; the defaults are not named by anyone.
        trusts_sites="docs_site_url" in settings.model_fields_set,
    )
    timing = DocsTiming(index_seconds=settings.docs_index_seconds, max_pages=settings.docs_index_pages)
    return WebActivities(
        DocsLibrary(sites, WebFetcher(rules), timing),
        HtmlSkeletons(WebFetcher(AddressRules(allow_private=settings.allow_private_addresses))),
    )


def docs_sites(settings: WorkerSettings) -> tuple[DocsSite, ...]:
    """The sites that the settings name, each with its index when one is named in the same place."""
    roots = _addresses(settings.docs_site_url)
    indexes = _addresses(settings.docs_index_url or "")
    return tuple(DocsSite(root, next((index for index in indexes if index.is_below(root)), None)) for root in roots)


def _addresses(text: str) -> list[WebAddress]:
    return [WebAddress.parse(part.strip()) for part in text.split(",") if part.strip()]
