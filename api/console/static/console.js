// What needs JavaScript beside htmx: whether the page is live, and copies of ids. Everything else works without it.
"use strict";
(() => {
  const seen = document.getElementById("seen");
  let lastTime = "";
  const say = (word, text) => {
    if (!seen) return;
    seen.dataset.word = word;
    if (seen.textContent !== text) seen.textContent = text;
    document.body.classList.toggle("stale", word === "stale");
  };
  const lost = (why) => say("stale", (lastTime ? `last seen ${lastTime}` : "not live") + (why ? `: ${why}` : ""));
  document.addEventListener("looked", (event) => {
    lastTime = event.detail.data;
    say("live", "live");
  });
  document.addEventListener("stale", (event) => lost(event.detail.data));
  document.addEventListener("htmx:sse:error", (event) => {
    if (event.detail.status === 401) location.reload();
    else lost("");
  });
  document.addEventListener("htmx:sse:before:connection", (event) => {
    if (event.detail.connection.attempt > 0 && !document.hidden) lost("");
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy]");
    if (button) navigator.clipboard.writeText(button.dataset.copy).then(() => { button.textContent = "Copied"; });
  });
})();
