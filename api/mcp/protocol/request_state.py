"""`requestState` (MCP 2026-07-28): the task whose questions a repeated call answers.

Clients store it between two calls, so it is encrypted for its caller and its tool: a changed state, and the state of
another caller, are refused.
"""

import base64
import json

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS
from pydantic import SecretStr, ValidationError

from outlast.activities.contracts import Caller, SealedSecret
from outlast.activities.failures.exceptions import SealError
from outlast.activities.secrets.encryption import SecretSealer


class RequestStates:
    """Encrypts and decrypts `requestState`."""

    def __init__(self, sealer: SecretSealer) -> None:
        """`sealer` holds the key ring that all API processes share: each can read the states of the others."""
        self._sealer = sealer

    def state_of(self, caller: Caller, task_id: str, tool: str) -> str:
        """The state for the questions of `task_id`. Each call returns a different string."""
        sealed = self._sealer.seal(SecretStr(json.dumps([task_id, tool])), purpose=_purpose(caller))
        return base64.urlsafe_b64encode(sealed.model_dump_json().encode()).decode()

    def task_in(self, caller: Caller, state: str, tool: str) -> str:
        """The id of the task. Raises -32602 for a state of another caller or of another tool."""
        try:
            sealed = SealedSecret.model_validate_json(base64.b64decode(state.encode(), altchars=b"-_", validate=True))
            task_id, state_tool = json.loads(self._sealer.open(sealed, purpose=_purpose(caller)).get_secret_value())
        except (ValueError, ValidationError, SealError) as error:
            raise _invalid_state() from error
        if state_tool != tool:
            raise _invalid_state()
        return str(task_id)


def _purpose(caller: Caller) -> str:
    return f"request-state:{caller.id}"


def _invalid_state() -> MCPError:
    return MCPError(
        INVALID_PARAMS,
        "This requestState was not issued to you for this tool. Send the one of the last input_required result.",
    )
