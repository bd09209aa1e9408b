"""Outlast's tools for models of any provider: the list of tools, and the calls of a message to what is appended.

services = await connected_services()
adapter = Adapter(services, BACK_ENDS["anthropic"])
tools = await adapter.tools()
answered = await adapter.answer(message)      # messages += answered.append
"""

from api.adapters.adapter import BACK_ENDS, Adapter, Answered, connected_services
from api.adapters.anthropic_messages import AnthropicMessages
from api.adapters.mcp_messages import McpMessages
from api.adapters.model_calls import BackEnd, CallReport
from api.adapters.openai_chat import OpenAIChat
from api.adapters.openai_responses import OpenAIResponses

__all__ = [
    "BACK_ENDS",
    "Adapter",
    "Answered",
    "AnthropicMessages",
    "BackEnd",
    "CallReport",
    "McpMessages",
    "OpenAIChat",
    "OpenAIResponses",
    "connected_services",
]
