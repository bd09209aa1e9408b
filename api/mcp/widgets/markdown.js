/*
 * Markdown as elements: headings, paragraphs, lists, quotes, tables, code, emphasis, links. It only makes elements with
 * text, so markup and scripts in a text are shown as they are. What it does not know stays text.
 */
"use strict";

const Markdown = (() => {
  const MOST_CHARS = 60000;
  /* A longer line is shown as it is: looking for marks in it takes the square of its length. */
  const MOST_LINE_CHARS = 5000;
  const FENCE = /^ {0,3}(`{3,}|~{3,})/;
  const HEADING = /^ {0,3}(#{1,6})\s+(\S.*)$/;
  const RULE = /^ {0,3}(?:-{3,}|\*{3,}|_{3,})\s*$/;
  const ITEM = /^( {0,12})(?:[-*+]|(\d{1,9})[.)])\s+(\S.*)$/;
  const QUOTE = /^ {0,3}>\s?/;
  const TABLE_RULE = /^[\s:|-]{3,}$/;

  /** The elements of a whole document. */
  function render(text) {
    const lines = String(text).slice(0, MOST_CHARS).replace(/\r\n?/g, "\n").split("\n");
    const made = document.createDocumentFragment();
    let at = 0;
    while (at < lines.length) {
      const [block, next] = blockAt(lines, at);
      if (block) made.append(block);
      at = next;
    }
    if (String(text).length > MOST_CHARS) made.append(element("p", { text: "…", className: "soft" }));
    return made;
  }

  /** The block that begins at a line, and the line after it. */
  function blockAt(lines, at) {
    const line = lines[at];
    const fence = FENCE.exec(line);
    if (fence) return code(lines, at, fence[1]);
    const heading = HEADING.exec(line);
    if (heading) return [spans(`h${Math.min(6, heading[1].length + 2)}`, heading[2].replace(/\s+#+$/, "")), at + 1];
    if (RULE.test(line)) return [element("hr"), at + 1];
    if (ITEM.test(line)) return list(lines, at);
    if (QUOTE.test(line)) return quote(lines, at);
    if (line.includes("|") && isTableRule(lines[at + 1])) return table(lines, at);
    if (!line.trim()) return [null, at + 1];
    return paragraph(lines, at);
  }

  function code(lines, at, fence) {
    let end = at + 1;
    while (end < lines.length && !lines[end].trimStart().startsWith(fence)) end += 1;
    return [element("pre", {}, element("code", { text: lines.slice(at + 1, end).join("\n") })), end + 1];
  }

  function list(lines, at) {
    const made = element(ITEM.exec(lines[at])[2] ? "ol" : "ul");
    let end = at;
    for (let found; end < lines.length && (found = ITEM.exec(lines[end])); end += 1) {
      const item = spans("li", found[3]);
      item.className = `level-${Math.min(3, Math.floor(found[1].length / 2))}`;
      made.append(item);
    }
    return [made, end];
  }

  function quote(lines, at) {
    let end = at;
    while (end < lines.length && QUOTE.test(lines[end])) end += 1;
    return [spans("blockquote", lines.slice(at, end).map((line) => line.replace(QUOTE, "")).join(" ")), end];
  }

  function paragraph(lines, at) {
    let end = at + 1;
    const begins = (line) => [FENCE, HEADING, ITEM, QUOTE, RULE].some((mark) => mark.test(line));
    while (end < lines.length && lines[end].trim() && !begins(lines[end])) end += 1;
    return [spans("p", lines.slice(at, end).join(" ")), end];
  }

  function isTableRule(line) {
    return line !== undefined && line.includes("-") && TABLE_RULE.test(line);
  }

  function table(lines, at) {
    const row = (line, kind) => {
      const cells = line.trim().replace(/^\||\|$/g, "").split("|");
      return element("tr", {}, ...cells.map((text) => spans(kind, text.trim())));
    };
    let end = at + 2;
    while (end < lines.length && lines[end].includes("|")) end += 1;
    const body = lines.slice(at + 2, end).map((line) => row(line, "td"));
    const whole = element("table", {}, element("thead", {}, row(lines[at], "th")), element("tbody", {}, ...body));
    return [element("div", { className: "wide" }, whole), end];
  }

  /** An element with the text's emphasis, code and links. */
  function spans(tag, text) {
    const made = document.createElement(tag);
    if (text.length > MOST_LINE_CHARS) made.textContent = text;
    else made.append(...inline(text));
    return made;
  }

  function inline(text) {
    const parts = [];
    let plain = "";
    let at = 0;
    while (at < text.length) {
      const [part, next] = spanAt(text, at);
      if (next === at) {
        plain += text[at];
        at += 1;
        continue;
      }
      if (plain) parts.push(plain);
      plain = "";
      parts.push(part);
      at = next;
    }
    return plain ? [...parts, plain] : parts;
  }

  /** The span that begins at a character, and the character after it; the same character when none begins there. */
  function spanAt(text, at) {
    const nothing = ["", at];
    if (text[at] === "`") return enclosed(text, at, "`", "code") || nothing;
    if (text.startsWith("**", at)) return enclosed(text, at, "**", "strong") || nothing;
    if (text[at] === "*" && /\S/.test(text[at + 1] || "")) return enclosed(text, at, "*", "em") || nothing;
    if (text[at] === "[" || text.startsWith("![", at)) return link(text, at) || nothing;
    return nothing;
  }

  function enclosed(text, at, mark, tag) {
    const end = text.indexOf(mark, at + mark.length);
    if (end <= at + mark.length) return null;
    return [element(tag, { text: text.slice(at + mark.length, end) }), end + mark.length];
  }

  /** `[text](address)`; of a picture its description. What is no web address is shown as its text. */
  function link(text, at) {
    const from = text[at] === "!" ? at + 2 : at + 1;
    const close = text.indexOf("]", from);
    if (close < 0 || text[close + 1] !== "(") return null;
    const end = text.indexOf(")", close + 2);
    if (end < 0) return null;
    const shown = text.slice(from, close).replace(/^!\[/, "");
    const address = text.slice(close + 2, end).trim().split(/\s/)[0];
    if (text[at] === "!" || !Host.isWebAddress(address)) return [shown, end + 1];
    const open = () => Promise.resolve(Host.openLink(address)).catch(() => {});
    return [element("button", { text: shown || address, className: "link", title: address, onclick: open }), end + 1];
  }

  return { render };
})();
