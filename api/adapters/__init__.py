"""Outlast's tools for models of any provider: the list of tools, and the answers to the calls of a message.

services = await connected_services()
adapter = Adapter(services, BACK_ENDS["anthropic"])
tools = await adapter.tools()
answered = await adapter.answer(message)      # messages += answered.append
"""

from outlast.api.adapters.adapter import BACK_ENDS, Adapter, Answered, connected_services
from outlast.api.adapters.message_formats import (
    AnthropicMessages,
    BackEnd,
    CallReport,
    McpMessages,
    OpenAIChat,
    OpenAIResponses,
)

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
