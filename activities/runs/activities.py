"""Activities on runs: start, wait, abort, look up."""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from http import HTTPStatus

from pydantic import BaseModel
from temporalio import activity
from temporalio.common import RetryPolicy

from outlast.activities import apify
from outlast.activities.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.failures.classify import ToolFailure, as_activity_failure, classify, failure, redact
from outlast.activities.failures.exceptions import SealError
from outlast.activities.heartbeat import HandedOver, Heartbeats, heartbeating
from outlast.activities.local_reads import GoesOver
from outlast.activities.platform.apify_platform import DEFAULT_REQUEST_TIMEOUT, ApifyPlatform
from outlast.activities.platform.request_marks import marked_as
from outlast.activities.runs.contracts import (
    AbortResult,
    AbortRunInput,
    EndedRun,
    RestoredInterval,
    RunRef,
    RunState,
    StartRunInput,
    WaitRunInput,
    may_be_resurrected,
)
from outlast.activities.runs.reads import RunReads, exceeded_limit, start_options, start_saved_task, with_few_rows
from outlast.activities.runs.spending import BudgetNotices, count_run_event, nears_limit, reserved_limit, settle_run
from outlast.activities.runs.starts import LOCAL_START_AGE, ActorLimits, LocalStart, StartedRuns, is_refusal
from outlast.activities.runs.stop_condition import PROCESSES_AT_ONCE, StopCondition
from outlast.activities.spending.ledger import Ledgers

START_HEARTBEAT_TIMEOUT = timedelta(seconds=10)
START_ATTEMPT_TIMEOUT = timedelta(minutes=3)
START_RETRY_POLICY = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=30))
WAIT_RETRY_POLICY = START_RETRY_POLICY
ABORT_ATTEMPT_TIMEOUT = timedelta(minutes=5)
ABORT_RETRY_POLICY = WAIT_RETRY_POLICY
READ_ATTEMPT_TIMEOUT = timedelta(seconds=60)
READ_HEARTBEAT_TIMEOUT = timedelta(seconds=10)
READ_RETRY_POLICY = RetryPolicy(initial_interval=timedelta(milliseconds=500), maximum_interval=timedelta(seconds=10))

_NEW_RUN_GRACE = timedelta(minutes=1)
"""A run that has just started may not be readable yet: reads go to replicas (apify-client waits for it too)."""
_ABORT_POLL_SECONDS = 5
_OLD_STATE_PAUSE_SECONDS = 0.5
_FOLLOWING_BEATS = 0.75
"""Interval of the heartbeats while a run is followed, as a share of the timeout: a late one only moves the wait."""
_LONGEST_SILENCE = START_HEARTBEAT_TIMEOUT * 0.75
"""An attempt that sent no heartbeat for longer starts nothing: the server may be about to replace it."""
_JUDGED_POLL_MAX = timedelta(seconds=5)
_LONGEST_POLL = timedelta(seconds=60)
"""The platform's limit of `waitForFinish` (Apify API v2)."""


class RunTiming(BaseModel):
    """Times and rates of the activities. Settings of the worker, with these defaults."""

    start_settle: timedelta = timedelta(seconds=10)
    """The time to look for a run whose start got no response, before another run is started."""
    poll_min: timedelta = timedelta(seconds=1)
    """Longest wait of one poll of a young run; its status message is at most this old."""
    poll_max: timedelta = timedelta(seconds=30)
    """Longest wait of one poll of an old run, when the worker follows few."""
    polls_per_second: float = 50
    """Polls of one worker for all its runs: with more runs each poll waits longer, up to the longest that the platform
    allows. The end of a run ends its poll."""
    request_timeout: timedelta = DEFAULT_REQUEST_TIMEOUT
    """The time limit of one response of the platform, in addition to the wait that the request asks for."""

    def wait_of_poll(self, age: timedelta, followed_runs: int, *, is_judged: bool = False) -> timedelta:
        """The wait of one poll of a run of this age, on a worker that follows so many. One that is stopped when it
        has produced enough is looked at more often.
        """
        by_age = min(age / 10, min(self.poll_max, _JUDGED_POLL_MAX) if is_judged else self.poll_max)
        fair_share = timedelta(seconds=followed_runs / self.polls_per_second)
        return max(self.poll_min, by_age, min(fair_share, _LONGEST_POLL))


class StartPhase(BaseModel):
    """Heartbeat details of `start_run`, which the next attempt reads."""

    may_have_started: bool


class RunActivities:
    """Activities on runs, on behalf of the caller that each request names."""

    def __init__(
        self,
        platform: ApifyPlatform,
        ledgers: Ledgers,
        *,
        console_url: str | None = None,
        timing: RunTiming | None = None,
        restored: RestoredInterval | None = None,
        notices: BudgetNotices | None = None,
    ) -> None:
        """Book what runs cost in `ledgers`; `notices` reports those that near their limit. `console_url` is the root of
        the web console that shows runs, if any; `restored` is the time in which another system continued the tasks of
        this one.
        """
        self._platform = platform
        self._notices = notices
        self._ledgers = ledgers
        self._limits = ActorLimits()
        self._timing = timing or RunTiming()
        self._reads = RunReads(platform, console_url=console_url, request_timeout=self._timing.request_timeout)
        self._restored = restored
        self._followed_runs = 0
        self._judging_places = asyncio.Semaphore(PROCESSES_AT_ONCE)

    @activity.defn
    async def start_run(self, request: StartRunInput) -> RunState:
        """Start the run of an operation, at most once, or adopt the run that an earlier attempt started.

        What it may cost is reserved in the caller's ledger first. Fails with the envelope of the platform's error, or
        of the cap that does not leave as much. When the account has no memory or run slot left, it is retried until
        the task's deadline.

        As a local activity it is tried once, and never for a caller with caps, whose ledger is queried first: a normal
        one continues if that fails, except after a refusal.
        """
        with as_activity_failure(waits_of=request.caller.id):
            if request.local is not None:
                return await self._start_locally(request, LocalStart(request.local))
            client = self._platform.account_client(request.caller)
            async with heartbeating() as heartbeats:
                # The SDK sends the first heartbeat of an attempt at once; it may throttle later ones.
                heartbeats.send(StartPhase(may_have_started=True))
                limit = await reserved_limit(
                    self._ledgers, request, lambda: self._limits.most_usd(client, request.caller, request.spec)
                )
                adopted = await self._adopt_started(client, request)
                if adopted is not None:
                    return limit.on(adopted)
                refuse_after_silence(heartbeats)
                budget = request.spec.budget.within(limit.usd)
                request = request.model_copy(update={"spec": request.spec.model_copy(update={"budget": budget})})
                started = await self._start_once(request, heartbeats)
                return limit.on(started)

    @activity.defn
    async def wait_for_run(self, request: WaitRunInput) -> EndedRun:
        """Follow a run until it has ended or exceeds a limit of its budget (then `over_budget` is set).

        With `until`, a run that has produced enough is stopped gracefully, and followed to its end (`until_met`).
        With `rows_within_bytes`, the result of an ended run includes its rows when they fit. The heartbeat details hold
        the latest `RunState`: progress is readable and adds nothing to the history. When its worker stops,
        another one follows the run at once.
        """
        with as_activity_failure(waits_of=request.caller.id):
            client = self._platform.client(request.caller)
            if activity.info().attempt > 1:
                count_run_event("taken_over")
            self._followed_runs += 1
            try:
                async with heartbeating(share=_FOLLOWING_BEATS, hands_over=True) as heartbeats:
                    ended = EndedRun.model_validate(dict(await self._follow(client, request, heartbeats)))
                    if may_be_resurrected(ended, request.resurrection, request.budget):
                        return ended
                    await settle_run(self._ledgers, request.caller, request.spend, ended)
                    return await with_few_rows(client, request, ended)
            except HandedOver:
                count_run_event("handed_over")
                raise
            finally:
                self._followed_runs -= 1

    @activity.defn
    async def abort_run(self, request: AbortRunInput) -> AbortResult:
        """Abort every run of the operation; return when the platform reports that each has ended."""
        with as_activity_failure(waits_of=request.caller.id):
            of_operation = request.operation_id is not None
            platform, caller = self._platform, request.caller
            client = platform.account_client(caller) if of_operation else platform.client(caller)
            async with heartbeating():
                run_ids = [request.run_id] if request.run_id else await self._find_started(client, request)
                found = [await self._abort_for(client, run_id, request) for run_id in run_ids]
                runs = tuple(run for run in found if run is not None)
                await self._settle_aborted(request, runs)
            return AbortResult(runs=runs)

    @activity.defn
    async def get_run(self, request: RunRef) -> RunState:
        """Look a run up. Fails with `not_found` if the caller cannot see it."""
        with as_activity_failure():
            client = self._platform.client(request.caller)
            async with heartbeating():
                return self._reads.state(await self._reads.run(client, request.run_id))

    async def _start_locally(self, request: StartRunInput, attempt: LocalStart) -> RunState:
        if self._restored is not None and self._restored.matters_at(datetime.now(UTC)):
            raise GoesOver("slow")  # A run that is not recorded here is searched first.
        start = asyncio.ensure_future(self._request_start(request, attempt.about_to_send))
        run = await attempt.answer_to(start)
        count_run_event("started")
        return self._reads.state(run).model_copy(update={"limit_usd": request.spec.budget.max_total_charge_usd})

    async def _adopt_started(self, client: "apify.ApifyClientAsync", request: StartRunInput) -> RunState | None:
        info = activity.info()
        actor, operation_id = request.spec.actor, request.operation_id
        run_ids = await self._find_unrecorded(client, actor, operation_id)
        since = request.may_have_begun_since
        if not run_ids and (info.attempt > 1 or since is not None):
            settle = self._settle(starts_late=since is not None) if _may_have_started(info) else timedelta(0)
            started = StartedRuns(client, actor=actor, operation_id=operation_id, since=since or info.scheduled_time)
            run_ids = await started.find(settle=settle)
        if not run_ids:
            return None
        count_run_event("adopted")
        activity.logger.warning("Adopted run %s: an earlier attempt had started it.", run_ids[0])
        for surplus in run_ids[1:]:
            activity.logger.error("Operation %s has a second run %s; aborting it.", request.operation_id, surplus)
            stopped = await self._abort(client, surplus, gracefully=False)
            if request.spend is not None:
                spend = request.spend.model_copy(update={"entry_id": f"{request.spend.entry_id}/{surplus}"})
                await settle_run(self._ledgers, request.caller, spend, stopped)
        return self._reads.state(await self._get_started(client, run_ids[0]), adopted=True)

    async def _find_unrecorded(self, client: "apify.ApifyClientAsync", actor: str, operation_id: str) -> list[str]:
        """Return the runs of an operation that were started after the backup from which this system was restored."""
        restored = self._restored
        if restored is None or not restored.matters_at(activity.info().scheduled_time):
            return []
        started = StartedRuns(
            client, actor=actor, operation_id=operation_id, since=restored.began, until=restored.ended
        )
        return await started.find(settle=timedelta(0))

    async def _start_once(self, request: StartRunInput, heartbeats: Heartbeats) -> RunState:
        start = asyncio.ensure_future(self._request_start(request))
        try:
            run = await asyncio.shield(start)
        except asyncio.CancelledError:
            # The platform may have the request already: read its response, so that the run can be aborted.
            run = await start
        except apify.ApifyApiError as error:
            if _took_payment_before(request, error):
                raise failure(_not_readable_yet(error)) from None
            if is_refusal(error):
                heartbeats.send(StartPhase(may_have_started=False))
                await self._release(request)
            raise
        except SealError:
            await self._release(request)
            raise
        count_run_event("started")
        return self._reads.state(run)

    async def _release(self, request: StartRunInput) -> None:
        """Give back what was reserved: this attempt started nothing, and the next one reserves again."""
        if request.caps is not None and request.spend is not None:
            await self._ledgers.release(request.caller, request.spend.entry_id)

    async def _settle_aborted(self, request: AbortRunInput, runs: tuple[RunState, ...]) -> None:
        """Book what the runs of an operation have cost, or give back what was reserved for the one that never was."""
        if request.spend is None:
            return
        if not runs:
            await self._ledgers.release(request.caller, request.spend.entry_id)
        for run in runs[:1]:
            await settle_run(self._ledgers, request.caller, request.spend, run)
        for run in runs[1:]:
            surplus = request.spend.model_copy(update={"entry_id": f"{request.spend.entry_id}/{run.run_id}"})
            await settle_run(self._ledgers, request.caller, surplus, run)

    async def _request_start(
        self, request: StartRunInput, about_to_send: Callable[[], None] = lambda: None
    ) -> "apify.Run":
        info = activity.info()
        run_input = await self._platform.input_text(
            request.spec.input, request.caller, task_id=info.workflow_id or "", attempt=info.attempt
        )
        options = start_options(request.spec, run_input)
        payment = self._platform.open_payment(request.payment, request.caller)
        with marked_as(request.operation_id, owner=self._platform.owner_mark(request.caller), payment=payment):
            starting = self._platform.client(request.caller)  # it then counts the run as the caller's
            about_to_send()
            if request.spec.saved_task is not None:
                url = f"{self._platform.url_of('actor-tasks', request.spec.saved_task)}/runs"
                return await start_saved_task(starting, url, options, timeout=self._start_timeout())
            return await starting.actor(request.spec.actor).start(**options, timeout=self._start_timeout())

    def _start_timeout(self) -> timedelta:
        """Return a timeout that ends before the activity does: a run that started later would not be followed."""
        info = activity.info()
        if info.schedule_to_close_timeout is None:
            return self._timing.request_timeout
        left = info.scheduled_time + info.schedule_to_close_timeout - datetime.now(UTC)
        return max(min(left, self._timing.request_timeout), timedelta(milliseconds=100))

    async def _follow(
        self, client: "apify.ApifyClientAsync", request: WaitRunInput, heartbeats: Heartbeats
    ) -> RunState:
        reported: RunState | None = None
        judge = StopCondition(client, request.until, self._judging_places) if request.until is not None else None
        while True:
            state = await self._poll(client, request.run_id, is_judged=judge is not None)
            if state.is_final and _is_old(state, request.ended_before):
                await asyncio.sleep(_OLD_STATE_PAUSE_SECONDS)
                continue
            if judge is not None:
                state = await self._judged(client, state, judge, heartbeats)
            if request.watch is not None and self._notices is not None and nears_limit(state, request.budget):
                await self._notices.tell(request.watch, state, request.budget)
            if state.is_final:
                return state
            limit = exceeded_limit(state, request.budget) if state.until_met is None else None
            if limit is not None:
                return state.exceeding(limit)
            heartbeats.set_details(state, *([judge.progress] if judge is not None else []))
            if reported is None or _is_news(state, reported):
                heartbeats.send()
                reported = state

    async def _judged(
        self, client: "apify.ApifyClientAsync", state: RunState, judge: StopCondition, heartbeats: Heartbeats
    ) -> RunState:
        """The state with the condition that the run meets, which is stopped gracefully when it does. A run that has
        ended by itself was not stopped. One that ended otherwise is judged to the end: the worker that stopped it may
        have been lost since.
        """
        if state.status == "SUCCEEDED":
            return state
        met = await (judge.judge_end(state) if state.is_final else judge.judge(state))
        if met is None:
            return state
        state = state.model_copy(update={"until_met": met})
        if not state.is_final and state.status not in ("ABORTING", "TIMING-OUT"):
            heartbeats.send(state, judge.progress)
            await _stop_gracefully(client, state)
        return state

    async def _poll(self, client: "apify.ApifyClientAsync", run_id: str, *, is_judged: bool = False) -> RunState:
        """Return one long poll: short for a young run (fresh status messages), long for an old one (few requests)."""
        wait = self._timing.wait_of_poll(_time_since_scheduled(), self._followed_runs, is_judged=is_judged)
        return self._reads.state(await self._get_started(client, run_id, wait=wait))

    async def _get_started(
        self, client: "apify.ApifyClientAsync", run_id: str, *, wait: timedelta = timedelta(0)
    ) -> "apify.Run":
        """A run that is known to exist. Soon after its start, "not found" means "not readable yet", and is retried."""
        try:
            return await self._reads.run(client, run_id, wait=wait)
        except apify.NotFoundError as error:
            if _time_since_scheduled() > _NEW_RUN_GRACE:
                raise
            raise failure(_not_readable_yet(error)) from None

    async def _find_started(self, client: "apify.ApifyClientAsync", request: AbortRunInput) -> list[str]:
        if request.actor is None or request.operation_id is None:
            return []
        unrecorded = await self._find_unrecorded(client, request.actor, request.operation_id)
        since = request.since or activity.info().scheduled_time
        started = StartedRuns(client, actor=request.actor, operation_id=request.operation_id, since=since)
        found = await started.find(settle=self._settle(starts_late=request.may_start_late))
        return list(dict.fromkeys([*unrecorded, *found]))

    def _settle(self, *, starts_late: bool) -> timedelta:
        """Return the time to look for a run. A local start may be sent this long after its worker was given up."""
        return self._timing.start_settle + (LOCAL_START_AGE if starts_late else timedelta(0))

    async def _abort_for(
        self, client: "apify.ApifyClientAsync", run_id: str, request: AbortRunInput
    ) -> RunState | None:
        """Abort a run. A run of our own may not be readable yet; None when it still is not after the grace period:
        then it was deleted and does not run.
        """
        try:
            if request.ended_before is not None:
                await self._await_another_life(client, run_id, request.ended_before)
            return await self._abort(client, run_id, gracefully=request.gracefully)
        except apify.NotFoundError as error:
            if request.operation_id is None:
                raise
            if _time_since_scheduled() > _NEW_RUN_GRACE:
                return None
            raise failure(_not_readable_yet(error)) from None

    async def _await_another_life(self, client: "apify.ApifyClientAsync", run_id: str, ended: datetime) -> None:
        """Look for a while whether the run was resurrected after it had ended: that may show late."""
        deadline = time.monotonic() + self._timing.start_settle.total_seconds()
        while time.monotonic() < deadline:
            state = self._reads.state(await self._reads.run(client, run_id))
            if not state.is_final or state.finished_at != ended:
                return
            await asyncio.sleep(_OLD_STATE_PAUSE_SECONDS)

    async def _abort(self, client: "apify.ApifyClientAsync", run_id: str, *, gracefully: bool) -> RunState:
        state = self._reads.state(await self._reads.run(client, run_id))
        while not state.is_final:
            if state.status != "ABORTING":
                count_run_event("abort_requested")
                await client.run(run_id).abort(gracefully=gracefully)
            wait = timedelta(seconds=_ABORT_POLL_SECONDS)
            state = self._reads.state(await self._reads.run(client, run_id, wait=wait))
        return state


def _is_old(state: RunState, ended_before: datetime | None) -> bool:
    """Return True if a replica shows an earlier end of a run that was resurrected. It does so for a while only."""
    shows_earlier_end = ended_before is not None and state.finished_at == ended_before
    return shows_earlier_end and _time_since_scheduled() <= _NEW_RUN_GRACE


async def _stop_gracefully(client: "apify.ApifyClientAsync", state: RunState) -> None:
    """Request that the run ends. The next poll shows the effect: the request is repeated, or the run has ended."""
    count_run_event("abort_requested")
    try:
        await client.run(state.run_id).abort(gracefully=True)
    except Exception as error:  # noqa: BLE001
        activity.logger.warning("Cannot request that run %s stops: %s", state.run_id, redact(repr(error)))


def _time_since_scheduled() -> timedelta:
    """Return the time since the workflow scheduled this activity, whatever the attempt."""
    return datetime.now(UTC) - activity.info().scheduled_time


def _may_have_started(info: activity.Info) -> bool:
    """Return True if the start request of the previous attempt may have reached the platform, or if that is unknown."""
    if not info.heartbeat_details:
        return True
    return StartPhase.model_validate(info.heartbeat_details[0]).may_have_started


def _is_news(state: RunState, reported: RunState) -> bool:
    """Return True to send a heartbeat at once. What changes with every poll (usage, statistics) goes with the regular
    heartbeats: each is a write on the Temporal server, and a worker may follow thousands of runs.
    """
    return (state.status, state.status_message) != (reported.status, reported.status_message)


def refuse_after_silence(heartbeats: Heartbeats) -> None:
    """Raise if this process was suspended or swapped out: another attempt may have replaced this one."""
    if heartbeats.silence > _LONGEST_SILENCE:
        message = "This attempt was suspended for too long; another attempt may be starting the run."
        raise ToolFailure.of(ErrorCategory.PLATFORM, message, retryable=True)


def _took_payment_before(request: StartRunInput, error: "apify.ApifyApiError") -> bool:
    """Return True if a payment may have been taken for the run of an earlier attempt, not listed yet."""
    info = activity.info()
    had_sent = (info.attempt > 1 and _may_have_started(info)) or request.may_have_begun_since is not None
    is_unpaid = error.status_code == HTTPStatus.PAYMENT_REQUIRED and request.caller.payment is not None
    return is_unpaid and had_sent and _time_since_scheduled() <= _NEW_RUN_GRACE


def _not_readable_yet(error: "apify.ApifyApiError") -> ErrorEnvelope:
    update = {"category": ErrorCategory.PLATFORM, "retryable": True, "hint": None}
    return classify(error).model_copy(update=update)
