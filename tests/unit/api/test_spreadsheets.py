"""What a spreadsheet computes is written as text; numbers stay numbers."""

import pytest

from outlast.api.spreadsheets import safe_cell


@pytest.mark.parametrize(
    "text",
    [
        "=1+1",
        "+1+1",
        "-1+1",
        "@SUM(A1)",
        "\t=1",
        "\r=1",
        "\n=1",
        "-",
        "=",
        "-5%",
        "+420 777",
        "=-5",
        "--5",
        "-5e",
        "＝1",
    ],
)
def test_what_begins_as_a_formula_is_text(text: str) -> None:
    assert safe_cell(text) == f"'{text}"


@pytest.mark.parametrize(
    "value", ["-5", "+5", "-5.25", "-.5", "-1e-7", "+1E9", -5, -0.5, 7, "", "a=b", "5-3", " x", None]
)
def test_numbers_and_other_text_stay(value: object) -> None:
    assert safe_cell(value) == value
