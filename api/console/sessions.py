"""Sessions: conversations with their messages and calls."""

from outlast.api.console.framework import Context, Section, View

section = Section("Sessions")


@section.page("sessions", "sessions.html", live=("list",))
async def sessions(view: View) -> Context:
    """The open sessions, newest first."""
    page = await view.services.session_collection.list(view.caller, page_size=50, page_token=view.of_query("page"))
    return {"sessions": page.sessions, "next_page": page.next_page_token}


@section.page("sessions/{session_id}", "session.html", live=("head", "chat"))
async def session(view: View) -> Context:
    """A conversation: its messages, the calls in it, and what it has cost."""
    session_id, services = view.of_path("session_id"), view.services
    page = await services.session_collection.messages(
        view.caller, session_id, page_size=50, page_token=view.of_query("page")
    )
    return {
        "session": await services.sessions.describe(view.caller, session_id),
        "messages": page.messages,
        "older": page.next_page_token,
    }
