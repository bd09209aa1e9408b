"""A folder of skills: what is offered, what is loaded, and what is refused."""

import logging
from pathlib import Path

import pytest

from outlast.activities.failures.classify import ToolFailure
from outlast.activities.skills import MAX_FILE_BYTES, InvalidSkill, SkillCard, SkillFolder, parse_skill
from outlast.api.catalog.instructions import server_instructions
from outlast.workflows.tools.registry import tool_set

GOOD = "---\nname: {name}\ndescription: >\n  How to\n  do it.\n---\n\n# Do it\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two good skills, and a secret beside the folder."""
    (tmp_path / "secret.txt").write_text("the secret outside")
    for name in ("invoices", "letters"):
        (tmp_path / "skills" / name / "more").mkdir(parents=True)
        (tmp_path / "skills" / name / "SKILL.md").write_text(GOOD.format(name=name))
    (tmp_path / "skills" / "invoices" / "more" / "vat.md").write_text("7 % or 19 %")
    (tmp_path / "skills" / "invoices" / ".hidden").write_text("x")
    return tmp_path / "skills"


def refusal(root: Path, name: str, path: str | None = None) -> ToolFailure:
    folder = SkillFolder(root)
    with pytest.raises(ToolFailure) as caught:
        if path is None:
            folder.load(name)
        else:
            folder.load_file(name, path)
    return caught.value


def test_skills_are_listed_by_name_with_their_descriptions(root: Path) -> None:
    assert SkillFolder(root).cards() == (
        SkillCard("invoices", "How to do it."),
        SkillCard("letters", "How to do it."),
    )


def test_a_skill_is_its_document_without_front_matter_and_its_files(root: Path) -> None:
    document = SkillFolder(root).load("invoices")
    assert document.text == "# Do it"
    assert (document.files, document.more_files) == (("more/vat.md",), False)
    assert SkillFolder(root).load_file("invoices", "more/vat.md").text == "7 % or 19 %"


def test_many_files_are_listed_up_to_a_number(root: Path) -> None:
    for number in range(150):
        (root / "letters" / f"{number:03}.md").write_text("x")
    document = SkillFolder(root).load("letters")
    assert (len(document.files), document.more_files) == (100, True)


@pytest.mark.parametrize(
    "name", ["..", ".", "../skills/invoices", "/etc", "", "a/b", "invoices\n", "x" * 65, "inv oices"]
)
def test_a_name_that_is_no_name_is_unknown(root: Path, name: str) -> None:
    assert refusal(root, name).envelope.category == "not_found"


def test_an_unknown_skill_is_answered_with_those_that_are_meant(root: Path) -> None:
    assert refusal(root, "invoice").envelope.hint == "Did you mean invoices?"
    assert refusal(root, "zzz").envelope.hint == "Skills: invoices, letters."


@pytest.mark.parametrize("path", ["../letters/SKILL.md", "/etc/passwd", "more", "..", "a\0b"])
def test_a_path_out_of_the_skill_is_refused(root: Path, path: str) -> None:
    assert refusal(root, "invoices", path).envelope.category == "validation"


def test_links_out_of_the_skill_are_refused(root: Path) -> None:
    (root / "invoices" / "link").symlink_to("../../secret.txt")
    (root / "evil").symlink_to("invoices")
    assert "outside the folder" in refusal(root, "invoices", "link").envelope.message
    assert refusal(root, "evil").envelope.category == "not_found"
    assert "link" not in SkillFolder(root).load("invoices").files


def test_a_missing_file_is_answered_with_those_there_are(root: Path) -> None:
    assert refusal(root, "invoices", "vat.md").envelope.hint == "Supporting files of invoices: more/vat.md."


def test_what_is_too_large_or_no_text_is_refused(root: Path) -> None:
    (root / "invoices" / "large").write_bytes(b"x" * (MAX_FILE_BYTES + 1))
    (root / "invoices" / "binary").write_bytes(b"\xff\xfe")
    assert str(MAX_FILE_BYTES) in refusal(root, "invoices", "large").envelope.message
    assert "not UTF-8 text" in refusal(root, "invoices", "binary").envelope.message


@pytest.mark.parametrize(
    ("text", "lack"),
    [
        ("# no front matter", "does not begin"),
        ("---\nname: a\n", "does not begin"),
        ("---\nname: b\ndescription: x\n---\n", "name: a"),
        ("---\nname: a\n---\n", "no `description`"),
        ("---\nname: a\ndescription: [x]\n---\n", "no `description`"),
        ("---\n{[\n---\n", "not valid YAML"),
        ("---\n- a\n---\n", "name: a"),
        ("---\n!!python/object/apply:os.system ['true']\n---\n", "not valid YAML"),
        ("---\nname: a\ndescription: " + "x" * 20_000 + "\n---\n", "more than"),
        ("---\n" + "[" * 5_000 + "\n---\n", "not valid YAML"),
    ],
)
def test_a_broken_skill_says_what_it_lacks(text: str, lack: str) -> None:
    with pytest.raises(InvalidSkill, match=lack):
        parse_skill("a", text)


def test_a_broken_skill_is_not_offered_and_the_log_says_why(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    (root / "broken").mkdir()
    (root / "broken" / "SKILL.md").write_text("nothing")
    (root / "empty").mkdir()
    with caplog.at_level(logging.WARNING, "outlast.skills"):
        names = [card.name for card in SkillFolder(root).cards()]
    assert names == ["invoices", "letters"]
    assert "broken" in caplog.text
    assert "is invalid" in refusal(root, "broken").envelope.message


def test_a_folder_that_is_not_there_has_no_skills(tmp_path: Path) -> None:
    assert SkillFolder(tmp_path / "absent").cards() == ()


def test_instructions_list_skills_within_bounds() -> None:
    cards = [SkillCard(f"skill-{number}", "x" * 1_000) for number in range(500)]
    tools = tool_set("default", ())
    told = server_instructions(tools, cards)
    assert "skill-0: xxx" in told
    assert "and 450 more" in told
    assert len(told) < 20_000
    assert "Skills" not in server_instructions(tools, ())
