"""SessionWorkflow: the event log of one conversation.

It receives the task-completed signal of every call, and the messages that tools send to the user.
"""

from datetime import timedelta
from typing import Literal

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from outlast.activities.conversations.activities import (
        FORGET_ATTEMPT_TIMEOUT,
        FORGET_HEARTBEAT_TIMEOUT,
        FORGET_RETRY_POLICY,
        SessionDeletionActivities,
    )

from outlast.activities.conversations.contracts import ConversationOwner, ForgetSessionInput
from outlast.workflows.contracts import memo, sessions
from outlast.workflows.contracts.queues import OUTPUTS_TASK_QUEUE
from outlast.workflows.contracts.search_attributes import query_of_session
from outlast.workflows.contracts.self_correction import EarlierFailures, Verdict, verdict_on
from outlast.workflows.contracts.tool_calls import CallRefused, TaskCompleted
from outlast.workflows.turns.budgets import left, total


@workflow.defn
class SessionWorkflow:
    """Holds the events of a conversation, and the reference to what was said.

    It ends after 30 days (or as set) without an event; the next call starts it again, with an empty conversation.
    """

    @workflow.init
    def __init__(self, state: sessions.SessionState) -> None:
        """Continue from `state`."""
        self._state = state if state.began else state.model_copy(update={"began": workflow.now()})
        self._changed = False
        self._deletion: Literal["none", "asked", "done"] = "none"

    @workflow.run
    async def run(self, _state: sessions.SessionState) -> None:
        """Receive events until Temporal suggests to continue as new, or until its life without one is over."""
        idle = timedelta(seconds=self._state.idle_seconds)
        while not workflow.info().is_continue_as_new_suggested():
            self._changed = False
            try:
                await workflow.wait_condition(lambda: self._changed, timeout=idle)
            except TimeoutError:
                return
            if self._deletion == "asked":
                await self._forget()
                return
        await workflow.wait_condition(workflow.all_handlers_finished)
        workflow.continue_as_new(self._state)

    @workflow.signal(name=sessions.TASK_COMPLETED_SIGNAL)
    def task_completed(self, event: TaskCompleted) -> None:
        """A call of this session was answered."""
        self._record(task_completed=event, self_correction=self._counted(event))

    @workflow.signal(name=sessions.CALL_REFUSED_SIGNAL)
    def call_refused(self, event: CallRefused) -> None:
        """A call of this session was refused before it could become a task."""
        self._record(call_refused=event, self_correction=self._counted(event))

    @workflow.signal(name=sessions.POSTED_SIGNAL)
    def posted(self, event: sessions.Posted) -> None:
        """A call of this session sent a message to the user."""
        self._record(posted=event)

    @workflow.update
    def open(self, profile: sessions.SessionProfile) -> sessions.SessionProfile:
        """Let turns begin. The first profile counts, so that all turns see the same tools."""
        kept = self._state.profile or profile
        is_new = self._state.profile is None
        self._change(profile=kept)
        if is_new:
            self._list()
        return kept

    @workflow.update
    def change_profile(self, profile: sessions.SessionProfile) -> sessions.SessionProfile:
        """Let later turns have another profile."""
        self._change(profile=profile)
        self._list()
        return profile

    @workflow.update
    def rename(self, title: str) -> None:
        """Give the session another title."""
        self._change(title=title)
        self._list()

    @workflow.update
    def adopt(self, imported: sessions.AdoptConversation) -> bool:
        """Take over an imported conversation; False when the session has one already."""
        if self._state.turns:
            return False
        turns = imported.turns[-sessions.KEPT_EVENTS :]
        self._change(
            title=imported.title or self._state.title,
            turns=turns,
            turn_count=imported.turn_count,
            head=turns[-1].turn_id if turns else None,
            conversation=imported.conversation,
        )
        self._list()
        return True

    @workflow.update
    async def delete(self) -> sessions.TurnRef | None:
        """Delete the session with all that was kept of it; gives the turn that has to end first, if there is one."""
        running = next((turn for turn in self._state.turns if turn.turn_id == self._state.running), None)
        if running is not None:
            return running
        self._deletion = "asked" if self._deletion == "none" else self._deletion
        self._changed = True
        await workflow.wait_condition(lambda: self._deletion == "done")
        return None

    @workflow.update
    def begin_turn(self, asked: sessions.BeginTurn) -> sessions.TurnPlace:
        """Give a turn its place in the conversation: the same one for the same message. One turn runs at a time."""
        state = self._state
        failures = EarlierFailures(counts=state.self_correction.counts, reminded=state.reminded)
        known = next((turn for turn in state.turns if turn.turn_id == asked.turn_id), None)
        # A turn that was never started loses its place when another one takes over; it asks again like any other.
        if known is not None and (known.ended or known.turn_id == state.running):
            return sessions.TurnPlace(turn=known, spent=state.spent, failures=failures)
        running = next((turn for turn in state.turns if turn.turn_id == state.running), None)
        if running is not None and running.turn_id != asked.over:
            return sessions.TurnPlace(busy=running, spent=state.spent)
        _, over = left(state.profile.budgets if state.profile else sessions.Budgets(), state.spent, sessions.Budgets())
        if over is not None:
            return sessions.TurnPlace(over=over, spent=state.spent)
        retried = next((turn for turn in self._state.turns if turn.turn_id == asked.retry_of), None)
        turn = sessions.TurnRef(
            turn_id=asked.turn_id,
            message_id=asked.message_id,
            parent=retried.parent if retried else self._state.head,
            retry_of=asked.retry_of,
            began=workflow.now(),
            asked_digest=asked.asked_digest,
            before=asked.retried_before if asked.retry_of else state.conversation,
        )
        others = tuple(other for other in state.turns if other is not known)
        self._change(
            turns=(*others, turn)[-sessions.KEPT_EVENTS :],
            running=turn.turn_id,
            turn_count=state.turn_count + (known is None),
            title=state.title or asked.title,
        )
        return sessions.TurnPlace(turn=turn, spent=state.spent, failures=failures)

    @workflow.signal(name=sessions.TURN_ENDED_SIGNAL)
    def turn_ended(self, ended: sessions.TurnEnded) -> None:
        """A turn of this session has ended."""
        end = {"ended": True, "conversation": ended.conversation}
        turns = tuple(
            turn.model_copy(update=end) if turn.turn_id == ended.turn_id else turn for turn in self._state.turns
        )
        goes_on = ended.conversation if ended.counts else None
        before = next((turn.before for turn in turns if turn.turn_id == ended.turn_id), None)
        # A summary that was paid for serves the next turn, also when this one came no further.
        shortened = ended.shortened if before == self._state.conversation else None
        self._change(
            turns=turns,
            head=ended.turn_id if goes_on else self._state.head,
            conversation=goes_on or shortened or self._state.conversation,
            running=None if self._state.running == ended.turn_id else self._state.running,
            spent=total(self._state.spent, ended.spent),
            reminded=(*self._state.reminded, *ended.reminded)[-sessions.KEPT_EVENTS :],
        )
        self._list()

    @workflow.query
    def overview(self) -> sessions.SessionOverview:
        """The state of the session that the next turn needs."""
        state = self._state
        return sessions.SessionOverview(
            profile=state.profile,
            title=state.title,
            began=state.began,
            turns=state.turns,
            head=state.head,
            conversation=state.conversation,
            running=state.running,
            spent=state.spent,
            deleted=self._deletion != "none",
        )

    @workflow.query
    def overview_for(self, turn_ids: list[str]) -> sessions.SessionOverview:
        """The same with these turns only: with all of them, a session's messages would cost more and more."""
        turns = tuple(turn for turn in self._state.turns if turn.turn_id in turn_ids)
        return self.overview().model_copy(update={"turns": turns})

    @workflow.query
    def events(self) -> list[sessions.SessionEvent]:
        """The latest events, oldest first."""
        return list(self._state.events)

    @workflow.query
    def self_correction(self) -> sessions.SelfCorrectionView:
        """The failures of the session's calls, counted, and the verdict on the latest call."""
        counted = self._state.self_correction
        return sessions.SelfCorrectionView(counted=counted, verdict=verdict_on(counted))

    async def _forget(self) -> None:
        state = self._state
        turns = (sessions.turn_workflow_id(state.caller_id, state.session_id, turn.turn_id) for turn in state.turns)
        tasks = (event.task_completed.task_id for event in state.events if event.task_completed is not None)
        await workflow.execute_activity_method(
            SessionDeletionActivities.forget_session,
            ForgetSessionInput(
                owner=ConversationOwner(caller_id=state.caller_id, session_id=state.session_id),
                workflows=(*turns, *tasks),
                query=query_of_session(state.caller_id, state.session_id),
            ),
            task_queue=OUTPUTS_TASK_QUEUE,
            start_to_close_timeout=FORGET_ATTEMPT_TIMEOUT,
            heartbeat_timeout=FORGET_HEARTBEAT_TIMEOUT,
            retry_policy=FORGET_RETRY_POLICY,
            summary="delete the session",
        )
        self._deletion = "done"
        await workflow.wait_condition(workflow.all_handlers_finished)

    def _list(self) -> None:
        """Let lists show the session as it is now."""
        state, profile = self._state, self._state.profile or sessions.SessionProfile()
        listing = sessions.SessionListing(
            title=state.title,
            provider_id=profile.provider_id,
            model_id=profile.model_id,
            began=state.began,
            updated=workflow.now(),
            turns=state.turn_count,
        )
        workflow.upsert_memo({memo.SESSION: listing})
        running = f"Turn `{state.running}` is running." if state.running is not None else "Waits for a message."
        workflow.set_current_details(f"{listing.turns} turns. {running}")

    def _change(self, **changes: object) -> None:
        self._state = self._state.model_copy(update=changes)
        self._changed = True

    def _counted(self, call: TaskCompleted | CallRefused) -> Verdict | None:
        counted, verdict = sessions.corrected(self._state.self_correction, call)
        self._state = self._state.model_copy(update={"self_correction": counted})
        return verdict

    def _record(self, **fields: TaskCompleted | CallRefused | sessions.Posted | Verdict | None) -> None:
        """Add one event: one per signal, in the order of the history. `api.temporal.session_events` relies on it."""
        number = self._state.next_number
        event = sessions.SessionEvent.model_validate({"number": number, "time": workflow.now(), **fields})
        events = (*self._state.events, event)[-sessions.KEPT_EVENTS :]
        self._state = self._state.model_copy(update={"events": events, "next_number": number + 1})
        self._changed = True
