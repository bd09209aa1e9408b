"""Changes of a schedule: what it is told to start, and when, over what it has been."""

from outlast.activities.contracts import Caller
from outlast.api.schedules.due import DueCalls
from outlast.api.schedules.errors import ScheduleRefused
from outlast.contracts.schedules import ScheduleChanges, check_timing
from outlast.workflows.schedules.contracts import FiringInput, Spending, Timing

_MAY_BE_ABSENT = frozenset({"start_at", "end_at", "budget_usd", "note"})


async def changed_order(due: DueCalls, caller: Caller, before: FiringInput, changes: ScheduleChanges) -> FiringInput:
    """`before` with the changes, for the caller as it is now. Raises `ScheduleRefused`, and as `DueCalls.admitted`."""
    said = {
        name: getattr(changes, name)
        for name in changes.model_fields_set
        if getattr(changes, name) is not None or name in _MAY_BE_ABSENT
    }
    timing = before.timing.model_copy(update={name: said[name] for name in said.keys() & Timing.model_fields.keys()})
    spending = before.spending.model_copy(
        update={name: said[name] for name in said.keys() & Spending.model_fields.keys()}
    )
    _check(timing, spending)
    update: dict[str, object] = {"timing": timing, "spending": spending, "caller": caller.with_account}
    if "note" in said:
        update["note"] = said["note"]
    if changes.targets:
        target = await due.admitted(caller, changes, before.due)
        update |= {"due": target.due, "tool": target.tool}
    return before.model_copy(update=update)


def _check(timing: Timing, spending: Spending) -> None:
    try:
        check_timing(timing)
    except ValueError as error:
        raise ScheduleRefused(f"Nothing was changed: {error}.") from error
    if spending.budget_usd is not None and timing.overlap == "allow_all":
        raise ScheduleRefused("Nothing was changed: with a budget, `overlap` cannot be `allow_all`.")
