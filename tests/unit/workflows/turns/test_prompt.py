"""The beginning of a prompt: text that never changes stands first, so that a provider's cache serves it."""

from outlast.workflows.turns.steps import STATIC, system_text


def test_static_text_comes_first_and_the_text_of_the_owner_last() -> None:
    assert system_text(instructions=" Of the server. ", own="Of the owner.\n") == (
        f"{STATIC}\n\nOf the server.\n\nOf the owner."
    )


def test_two_sessions_of_one_server_share_the_longest_beginning() -> None:
    first, second = (system_text(instructions="Of the server.", own=own) for own in ("Be brief.", "Sing."))
    shared = system_text(instructions="Of the server.")
    assert first.startswith(shared)
    assert second.startswith(shared)
    assert system_text(own="Be brief.").startswith(STATIC)
