// Preloaded into the peer: what it sends to Actors' own hosts goes to the same Actors on the sandbox platform, and what
// it asks of the documentation and of its search goes to the tests' own site.
import http from "node:http";
import https from "node:https";

const { APIFY_API_BASE_URL: platform, DOCS_URL: docs } = process.env;
const [fetched, requested] = [globalThis.fetch, https.request];
const DOCS = new Set(["docs.apify.com", "crawlee.dev"]);

globalThis.fetch = (input, init) => {
  const url = new URL(input instanceof Request ? input.url : input);
  const actor = /^([a-z0-9]+)\.apify\.actor$/.exec(url.hostname);
  if (actor !== null) return fetched(`${platform}/standby/${actor[1]}${url.pathname}${url.search}`, init);
  return fetched(docs && DOCS.has(url.hostname) ? `${docs}${url.pathname}` : input, init);
};

https.request = (options, ...more) => {
  if (!docs || !/\.algolia(net)?\.(com|net)$/.test(options.hostname ?? "")) return requested(options, ...more);
  const { hostname, port } = new URL(docs);
  return http.request({ hostname, port, path: "/search", method: "GET", agent: false }, ...more);
};
