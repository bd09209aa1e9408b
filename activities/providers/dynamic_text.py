"""The dynamic text, for providers that take it in a user's message only."""


def as_user_text(dynamic: str) -> str:
    """Marked, so that a model does not take it for the user's own words."""
    return f"<system-context>\n{dynamic}\n</system-context>"
