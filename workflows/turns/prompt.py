"""The beginning of every prompt of a session: static text first, so that a provider's cache serves it. Pure."""

STATIC = """
You are an assistant that works with tools.
- Call several tools at once when they do not depend on each other.
- The answer of a failed call ends with a JSON object. In its `error`, `message`, `hint` and `violations` say what is
  wrong, `retryable` whether the same call may work later, `allowed_tools` what may be called. Never repeat a failed
  call unchanged unless it is retryable.
- When no tool may be called any more, answer with what you know.
""".strip()

LAST_WORDS = "No tool may be called any more. Answer the user now, in words, with what you know."
"""For a model that has answered nothing but calls of tools, or nothing at all, when no tool was active any more."""

NO_WORDS = (
    "The turn has reached its limit of steps, and the model has written no answer. The results of its tools are in the "
    "conversation: send another message to continue."
)
"""The text of a turn whose model writes nothing even then."""


def system_text(*, instructions: str = "", own: str = "") -> str:
    """Static text, then the server's instructions (skills included), then those that the session's owner gave."""
    parts = [STATIC, instructions.strip(), own.strip()]
    return "\n\n".join(part for part in parts if part)
