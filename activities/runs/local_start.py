"""Starting a run within its workflow's first task, as a local activity: what makes sure that it is started once.

A local activity leaves nothing behind when its worker dies: no count of attempts and no heartbeat. What takes its
place, and why that is enough: docs/decisions/0024-local-starts.md.
"""

import asyncio
import time
from datetime import UTC, datetime, timedelta

from outlast.activities.failures.classify import ToolFailure
from outlast.activities.local_reads import GoesOver
from outlast.activities.platform import apify
from outlast.activities.runs.contracts import LocalTerms
from outlast.activities.secrets.sealer import SealError

LOCAL_START_AGE = timedelta(seconds=4)
"""A request leaves at most so long after its workflow task began. When that is lost, another worker begins after 10."""
LOCAL_START_TIMEOUT = timedelta(seconds=5)
"""How long the platform's answer is waited for before a normal activity looks for the run."""


class LocalStart:
    """One local attempt. It sends its request in time or not at all, and says whether it may have been received."""

    def __init__(self, terms: LocalTerms) -> None:
        """Begin now. Raises `GoesOver` when a normal activity is to start the run, or to look for it."""
        self._terms = terms
        self._began = time.monotonic()
        self._may_have_started = terms.is_repeated
        if not terms.may_send:
            raise self._goes_over()

    def about_to_send(self) -> None:
        """Take note that the next thing is the request. Raises `GoesOver` when another worker may send it by now.

        Both clocks are asked: this machine's may differ from the server's, and its monotonic one stands still in a
        process that is only created after a pause.
        """
        age = datetime.now(UTC) - self._terms.task_began
        since_begin = timedelta(seconds=time.monotonic() - self._began)
        if max(abs(age), since_begin) > LOCAL_START_AGE:
            raise self._goes_over()
        self._may_have_started = True

    async def answer_to(self, start: "asyncio.Future[apify.Run]") -> "apify.Run":
        """The run, also when this attempt is cancelled meanwhile.

        Raises what refused it: the platform, or its own check. Otherwise `GoesOver`, in time.
        """
        if not await self._in_time(start):
            # A request that still waits for its connection must not leave later.
            start.cancel()
            raise self._goes_over()
        try:
            return start.result()
        except GoesOver:
            raise
        except (ToolFailure, SealError):
            if self._may_have_started:
                raise self._goes_over() from None
            raise
        except apify.ApifyApiError as error:
            if is_refusal(error):
                raise
            raise self._goes_over() from None
        except Exception:  # noqa: BLE001 (whatever it was, the run may have been started)
            # Never its cause: Temporal would write the unredacted text into the history.
            raise self._goes_over() from None

    async def _in_time(self, start: "asyncio.Future[apify.Run]") -> bool:
        while (left := self._began + LOCAL_START_TIMEOUT.total_seconds() - time.monotonic()) > 0:
            try:
                done, _ = await asyncio.wait({start}, timeout=left)
                return bool(done)
            except asyncio.CancelledError:
                # The platform may have the request already: read its response, so that the run can be aborted.
                continue
        return start.done()

    def _goes_over(self) -> GoesOver:
        return GoesOver("slow", may_have_acted=self._may_have_started)


def is_refusal(error: "apify.ApifyApiError") -> bool:
    """Whether the platform's answer says that it has started nothing."""
    return error.status_code < 500 and error.status_code != 408
