/*
 * The host, as widgets see it: MCP Apps (JSON-RPC over postMessage, specification 2026-01-26), or the older
 * `window.openai`. Everything a widget knows comes from the host's messages; it asks no network.
 */
"use strict";

const Host = (() => {
  const HANDSHAKE_MS = 800;
  const CALL_MS = 120000;
  const parent = window.parent;
  const pending = new Map();
  let nextId = 1;
  let handlers = {};
  let legacy = null;

  function post(message) {
    // The host's origin is not known to a sandboxed frame; nothing secret is ever sent.
    parent.postMessage({ jsonrpc: "2.0", ...message }, "*");
  }

  function request(method, params, timeoutMs = CALL_MS) {
    const id = nextId++;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        pending.delete(id);
        reject(new Error(`${method}: the host does not answer`));
      }, timeoutMs);
      pending.set(id, { resolve, reject, timer });
      post({ id, method, params });
    });
  }

  function settle(message) {
    const waiting = pending.get(message.id);
    if (!waiting) return;
    pending.delete(message.id);
    clearTimeout(waiting.timer);
    if (message.error) waiting.reject(new Error(String(message.error.message || "The host refused")));
    else waiting.resolve(message.result);
  }

  const answers = {
    ping: () => ({}),
    "ui/resource-teardown": () => {
      handlers.teardown?.();
      return {};
    },
  };

  const notifications = {
    "ui/notifications/tool-input": (params) => handlers.input?.(params.arguments || {}),
    "ui/notifications/tool-result": (params) => handlers.result?.(params),
    "ui/notifications/tool-cancelled": (params) => handlers.cancelled?.(String(params.reason || "")),
    "ui/notifications/host-context-changed": (params) => dress(params),
  };

  function receive(event) {
    const message = event.data;
    if (event.source !== parent || !message || message.jsonrpc !== "2.0") return;
    if (message.method === undefined) return settle(message);
    if (message.id === undefined) return notifications[message.method]?.(message.params || {});
    const answer = answers[message.method];
    if (answer) post({ id: message.id, result: answer(message.params || {}) });
    else post({ id: message.id, error: { code: -32601, message: `Method not found: ${message.method}` } });
  }

  function dress(context) {
    const root = document.documentElement;
    if (context.theme === "light" || context.theme === "dark") root.dataset.theme = context.theme;
    if (context.locale) root.lang = context.locale;
    for (const [name, value] of Object.entries(context.styles?.variables || {})) {
      if (/^--[a-z0-9-]+$/.test(name) && typeof value === "string" && !/url\(/i.test(value)) {
        root.style.setProperty(name, value);
      }
    }
  }

  function reportSize() {
    let last = "";
    const report = () => {
      const height = Math.ceil(document.body.getBoundingClientRect().height);
      const width = Math.ceil(document.documentElement.clientWidth);
      if (last === `${width}x${height}`) return;
      last = `${width}x${height}`;
      if (legacy) legacy.notifyIntrinsicHeight?.(height);
      else post({ method: "ui/notifications/size-changed", params: { width, height } });
    };
    new ResizeObserver(report).observe(document.body);
    report();
  }

  function connectLegacy() {
    legacy = window.openai;
    const show = () => {
      dress({ theme: legacy.theme, locale: legacy.locale });
      if (legacy.toolInput) handlers.input?.(legacy.toolInput);
      if (legacy.toolOutput) handlers.result?.({ structuredContent: legacy.toolOutput });
    };
    window.addEventListener("openai:set_globals", (event) => {
      const changed = event.detail?.globals || {};
      if ("toolOutput" in changed || "toolInput" in changed || "theme" in changed) show();
    });
    show();
  }

  async function connect(given) {
    handlers = given;
    window.addEventListener("message", receive);
    const hello = {
      appInfo: { name: document.title, version: "1.0.0" },
      appCapabilities: { availableDisplayModes: ["inline", "fullscreen"] },
      protocolVersion: "2026-01-26",
    };
    try {
      const host = await request("ui/initialize", hello, window.openai ? HANDSHAKE_MS : CALL_MS);
      dress(host.hostContext || {});
      post({ method: "ui/notifications/initialized", params: {} });
    } catch (error) {
      if (!window.openai) throw error;
      connectLegacy();
    }
    reportSize();
  }

  /** The answer of a tool: `structured`, and its `meta`. Throws what the tool or the host says went wrong. */
  async function ask(name, args) {
    const answer = legacy
      ? await legacy.callTool(name, args)
      : await request("tools/call", { name, arguments: args });
    const text = (answer?.content || []).map((block) => block.text || "").join("\n");
    const meta = answer?._meta || answer?.meta || {};
    if (answer?.isError) throw new ToolFailed(text || `${name} failed`, answer.structuredContent);
    if (answer?.structuredContent) return { structured: answer.structuredContent, meta };
    if (typeof answer?.result === "string") return { structured: JSON.parse(answer.result), meta };
    throw new ToolFailed(text || `${name} gave no structured answer`);
  }

  /** The structured answer of a tool. */
  async function callTool(name, args) {
    return (await ask(name, args)).structured;
  }

  /** Says something in the conversation, as the user. */
  function say(text) {
    if (legacy) return legacy.sendFollowUpMessage({ prompt: text });
    return request("ui/message", { role: "user", content: { type: "text", text } });
  }

  /** Asks the host to open a web page; anything but http(s) is left alone. */
  function openLink(url) {
    if (!isWebAddress(url)) return Promise.resolve();
    if (legacy) return Promise.resolve(legacy.openExternal({ href: url }));
    return request("ui/open-link", { url });
  }

  function isWebAddress(url) {
    try {
      return ["https:", "http:"].includes(new URL(url).protocol);
    } catch {
      return false;
    }
  }

  return { connect, ask, callTool, say, openLink, isWebAddress };
})();

/** What a tool says went wrong, with its structured answer where it has one. */
class ToolFailed extends Error {
  constructor(message, structured) {
    super(message);
    this.structured = structured;
  }
}

/** An element with text, never with markup: whatever comes from a run is shown as it is. */
function element(tag, { text, className, title, ...rest } = {}, ...children) {
  const made = document.createElement(tag);
  if (text !== undefined && text !== null) made.textContent = String(text);
  if (className) made.className = className;
  if (title) made.title = String(title);
  for (const [name, value] of Object.entries(rest)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}

const byId = (id) => document.getElementById(id);
const amount = (number) => new Intl.NumberFormat(document.documentElement.lang || "en").format(number);
