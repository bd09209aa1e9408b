"""What waits for an answer: calls to approve, and questions of tasks."""

from outlast.api.console.framework import Context, Section, View

section = Section("Approvals")


@section.page("approvals", "approvals.html", live=("cards",))
async def approvals(view: View) -> Context:
    """Everything that the caller can answer, and what its own tasks wait for."""
    found = await view.services.handoffs.open(view.principal)
    cards = [
        {
            "about": one,
            "is_approval": one.kind == "approval",
            "may": view.may("approve") and not (one.approvers and one.maker in (None, view.caller.id)),
        }
        for one in found
    ]
    return {"cards": cards, "waiting": len(found)}
