"""`requestState` (MCP 2026-07-28): which task a repeated call answers questions of.

Clients keep it between two calls and may do with it what they like, so it is sealed for its caller: whoever changes it,
or uses somebody else's, is refused.
"""

import base64
import json

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS
from pydantic import SecretStr, ValidationError

from outlast.activities.contracts import Caller, SealedSecret
from outlast.activities.secrets.sealer import SealError, SecretSealer


class RequestStates:
    """Makes and reads them."""

    def __init__(self, sealer: SecretSealer) -> None:
        """Seal with the key ring of the process, so that any API process can read them."""
        self._sealer = sealer

    def state_of(self, caller: Caller, task_id: str, tool: str) -> str:
        """The state for a question of task `task_id`; a new text each time."""
        sealed = self._sealer.seal(SecretStr(json.dumps([task_id, tool])), purpose=_purpose(caller))
        return base64.urlsafe_b64encode(sealed.model_dump_json().encode()).decode()

    def task_in(self, caller: Caller, state: str, tool: str) -> str:
        """The id of the task. Raises -32602 for a state that is not this caller's, or was made for another tool."""
        try:
            sealed = SealedSecret.model_validate_json(base64.b64decode(state.encode(), altchars=b"-_", validate=True))
            task_id, made_for = json.loads(self._sealer.open(sealed, purpose=_purpose(caller)).get_secret_value())
        except (ValueError, ValidationError, SealError) as error:
            raise _refused() from error
        if made_for != tool:
            raise _refused()
        return str(task_id)


def _purpose(caller: Caller) -> str:
    return f"request-state:{caller.id}"


def _refused() -> MCPError:
    return MCPError(INVALID_PARAMS, "requestState is not one that this server gave you for this tool.")
