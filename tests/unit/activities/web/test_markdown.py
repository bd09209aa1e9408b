"""Pages as a model reads them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.activities.web.pages import article_of_html, article_of_markdown, chunks_of, skeleton_of_html, slice_bytes

PAGE = """<!doctype html><html><head><title>Running | Docs</title><style>p{}</style></head><body>
<nav><a href="/">Home</a></nav><main><article><h1 id="running">Running</h1><p>Start an <a href="/x">Actor</a>.</p>
<h2 id="memory-limits">Memory<a class="hash-link" href="#memory-limits">link</a></h2><p>At least 128 MB.</p>
<h3 id="powers">Powers of two</h3><pre><code class="language-bash"># not a heading</code></pre>
<h2>Time-outs</h2><p>In seconds.</p></article></main><script>alert(1)</script></body></html>"""


def test_an_article_is_its_content_as_markdown() -> None:
    article = article_of_html(PAGE, "https://docs.example/a/b")
    assert article.title == "Running | Docs"
    assert "Start an [Actor](https://docs.example/x)." in article.markdown
    assert "```bash\n# not a heading\n```" in article.markdown
    assert "Home" not in article.markdown
    assert "alert" not in article.markdown
    assert [section.fragment for section in article.sections] == ["running", "memory-limits", "powers", "time-outs"]


def test_a_section_holds_its_subsections() -> None:
    article = article_of_html(PAGE)
    memory = article.under("memory-limits")
    assert memory is not None
    assert memory.startswith("## Memory")
    assert "# not a heading" in memory
    assert "In seconds" not in memory
    assert article.under("nowhere") is None


def test_markdown_has_the_fragments_that_sites_make() -> None:
    article = article_of_markdown("intro\n\n# One & two\n\ntext\n\n## `code`\n\n## `code`\n")
    assert [section.fragment for section in article.sections] == [None, "one--two", "code", "code-1"]
    assert article.title == "One & two"


def test_a_page_nested_without_end_is_still_text() -> None:
    assert "deep" in article_of_html("<div>" * 5_000 + "deep" + "</div>" * 5_000).markdown


def test_a_skeleton_keeps_structure_and_drops_the_rest() -> None:
    title, html = skeleton_of_html(
        "<html><head><title>T</title><style>x</style><meta name=a></head><body><!-- note --><script>x()</script>"
        f'<div class="row" data-id="7" onclick="x()" style="top:0"><p>{"word " * 100}</p>'
        '<img src="data:image/png;base64,AAAA" alt="logo"><a href="/next">Next</a>'
        '<svg><path d="M0"/></svg></div></body>'
    )
    assert title == "T"
    for gone in ("<script", "<style", "<meta", "note", "onclick", "top:0", "AAAA", "M0"):
        assert gone not in html
    for kept in ('class="row"', 'data-id="7"', 'href="/next"', 'alt="logo"', "data:image/png;base64,…", "<svg></svg>"):
        assert kept in html
    assert len(html) < 500


@given(st.text(alphabet="ab<>/é€😀 ", max_size=300), st.integers(min_value=8, max_value=64))
def test_chunks_are_bounded_and_whole(text: str, max_bytes: int) -> None:
    chunks = chunks_of(text, max_bytes)
    assert "".join(chunks) == text
    assert all(len(chunk.encode()) <= max_bytes for chunk in chunks)


@given(st.text(alphabet="aé€😀", max_size=80), st.integers(min_value=4, max_value=16))
def test_slices_put_together_are_the_whole(text: str, max_bytes: int) -> None:
    parts, offset = [], 0
    while offset is not None:
        part, offset, size = slice_bytes(text, offset, max_bytes)
        assert len(part.encode()) <= max_bytes
        assert size == len(text.encode())
        parts.append(part)
    assert "".join(parts) == text


@pytest.mark.parametrize("offset", [5, 1_000])
def test_a_slice_beyond_the_end_is_empty(offset: int) -> None:
    assert slice_bytes("abcd", offset, 10) == ("", None, 4)
