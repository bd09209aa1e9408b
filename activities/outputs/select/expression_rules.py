"""Whether a JMESPath expression can be applied at all: told before anything is started for it."""

from typing import Any, cast

import jmespath
from jmespath.exceptions import JMESPathError
from jmespath.functions import Functions

from outlast.activities.outputs.select.jmespath_client import size_problem


def problem_of(expression: str) -> str | None:
    """What is wrong with `expression`; None when it can be applied. What it does with a value only the value shows."""
    problem = size_problem(expression)
    if problem is not None:
        return problem
    try:
        parsed = cast(dict[str, Any], jmespath.compile(expression).parsed)
    except RecursionError:
        return "It is nested too deeply."
    except JMESPathError as error:
        return f"It is not valid JMESPath: {' '.join(str(error).split())[:300]}"
    return _wrong_function(parsed)


def _wrong_function(parsed: dict[str, Any]) -> str | None:
    table: dict[str, dict[str, Any]] = Functions.FUNCTION_TABLE
    left = [parsed]
    while left:
        node = left.pop()
        children = cast("list[Any]", node.get("children") or [])
        if node.get("type") == "function_expression":
            name, signature = str(node.get("value")), table.get(str(node.get("value")), {}).get("signature")
            if signature is None:
                return f"There is no function {name[:50]!r}."
            most = None if any(one.get("variadic") for one in signature) else len(signature)
            if len(children) < len(signature) or (most is not None and len(children) > most):
                return f"{name}() takes {len(signature)} arguments, and has {len(children)}."
        left += [child for child in children if isinstance(child, dict)]
    return None
