// Preloaded into the peer: what it sends to an Actor's own host goes to the same Actor on the sandbox platform.
const [platform, sent] = [process.env.APIFY_API_BASE_URL, globalThis.fetch];

globalThis.fetch = (input, init) => {
  const url = new URL(input instanceof Request ? input.url : input);
  const actor = /^([a-z0-9]+)\.apify\.actor$/.exec(url.hostname);
  if (actor === null) return sent(input, init);
  return sent(`${platform}/standby/${actor[1]}${url.pathname}${url.search}`, init);
};
