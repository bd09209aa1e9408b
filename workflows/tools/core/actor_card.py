"""The card of an Actor in answers, structured and as text."""

from outlast.activities.actors.contracts import ActorCard, ActorStats
from outlast.workflows.tools.core.actor_schema import cut

_MAX_DESCRIPTION_CHARS = 400


def short_card(card: ActorCard) -> ActorCard:
    """The card, its description cut to a few sentences."""
    return card.model_copy(update={"description": cut(card.description, _MAX_DESCRIPTION_CHARS)})


def card_as_text(card: ActorCard) -> str:
    """The card as Markdown."""
    lines = [f"## {card.title} (`{card.full_name}`)"]
    lines += [cut(card.description, _MAX_DESCRIPTION_CHARS)] if card.description else []
    lines += warnings_of(card)
    facts = [
        f"- Developer: {card.developer}",
        f"- Usage: {stats_in_words(card.stats)}",
        f"- Price: {card.pricing.summary}" if card.pricing else None,
        f"- Categories: {', '.join(card.categories)}" if card.categories else None,
        f"- Store: {card.url}" if card.url else None,
    ]
    return "\n".join([*lines, *(fact for fact in facts if fact)])


def warnings_of(card: ActorCard) -> list[str]:
    """Reasons against using the Actor."""
    deprecated = ["Deprecated: its developer advises against using it."] if card.is_deprecated else []
    return [*deprecated, *([f"Notice: {card.notice.replace('_', ' ').lower()}."] if card.notice else [])]


def stats_in_words(stats: ActorStats) -> str:
    """Users, success rate and rating, where known."""
    parts = [
        f"{stats.total_users:,} users" if stats.total_users is not None else None,
        f"{stats.monthly_users:,} in the last 30 days" if stats.monthly_users is not None else None,
        f"{stats.success_rate:.1%} of runs succeed" if stats.success_rate is not None else None,
        f"rated {stats.rating:.1f} of 5 by {stats.review_count or 0}" if stats.rating else None,
    ]
    return ", ".join(part for part in parts if part) or "not known"
