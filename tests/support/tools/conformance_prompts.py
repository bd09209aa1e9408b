"""The prompts and resources that MCP's conformance suite expects of a server. Loaded with OUTLAST_TOOLS_FROM."""

import base64
import json

from outlast.api.mcp.prompts import Prompt, PromptArgument, text_block
from outlast.api.mcp.resource_definitions import Resource
from outlast.workflows.tools.framework.tool import Tool
from tests.support.tools.conformance_tools import PNG

TOOLS: tuple[Tool, ...] = ()

PROMPTS = (
    Prompt("test_simple_prompt", "Simple", "A text.", lambda _given: [text_block("This is a simple prompt.")]),
    Prompt(
        "test_prompt_with_arguments",
        "With arguments",
        "A text with two arguments.",
        lambda given: [text_block(f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'")],
        (PromptArgument("arg1", "First", values=("paris", "park", "party")), PromptArgument("arg2", "Second")),
    ),
    Prompt(
        "test_prompt_with_embedded_resource",
        "With a resource",
        "A resource and a text.",
        lambda given: [
            {
                "type": "resource",
                "resource": {
                    "uri": given["resourceUri"],
                    "mimeType": "text/plain",
                    "text": "Embedded resource content",
                },
            },
            text_block("Please process the embedded resource above."),
        ],
        (PromptArgument("resourceUri", "URI of the resource."),),
    ),
    Prompt(
        "test_prompt_with_image",
        "With an image",
        "A picture and a text.",
        lambda _given: [
            {"type": "image", "data": PNG, "mimeType": "image/png"},
            text_block("Please analyze the image."),
        ],
    ),
    Prompt(
        "test_input_required_result_prompt",
        "With a question",
        "A text with an argument that is asked for where it is missing.",
        lambda given: [text_block(f"Context: {given['context']}")],
        (PromptArgument("context", "What context should the prompt use?"),),
    ),
)

RESOURCES = (
    Resource(
        "test://watched-resource",
        "watched-resource",
        "Watched",
        "A text that may be subscribed to.",
        "text/plain",
        lambda _parts: "Watched resource content",
    ),
    Resource(
        "test://static-text",
        "static-text",
        "Text",
        "A text that does not change.",
        "text/plain",
        lambda _parts: "This is the content of the static text resource.",
    ),
    Resource(
        "test://static-binary",
        "static-binary",
        "Picture",
        "A picture.",
        "image/png",
        lambda _parts: base64.b64decode(PNG),
    ),
    Resource(
        "test://template/{id}/data",
        "template",
        "Data",
        "Data by id.",
        "application/json",
        lambda parts: json.dumps({"id": parts["id"], "templateTest": True, "data": f"Data for ID: {parts['id']}"}),
    ),
)
