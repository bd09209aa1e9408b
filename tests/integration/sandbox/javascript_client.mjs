// Uses the sandbox through Apify's JavaScript client and prints what it saw as JSON.
import { ApifyClient } from "apify-client";

const [baseUrl, token] = process.argv.slice(2);
const client = new ApifyClient({ baseUrl, token, maxRetries: 0 });
const probe = client.actor("outlast/probe");
const seen = {};

seen.username = (await client.user().get()).username;
seen.found = (await client.store().list({ search: "quicksilver" })).items.map((actor) => actor.name);
const build = await (await probe.defaultBuild()).get();
seen.required = build.actorDefinition.input.required;

const run = await probe.call({ do: "push", rows: 3 }, { log: null });
seen.status = run.status;
seen.exitCode = run.exitCode;
seen.startedAtIsDate = run.startedAt instanceof Date;
seen.listed = (await probe.runs().list({ desc: true, limit: 1 })).items[0].id === run.id;

const dataset = client.dataset(run.defaultDatasetId);
const page = await dataset.listItems({ offset: 1, clean: true });
seen.items = page.items.map((item) => item.row);
seen.total = page.total;
const csv = await dataset.downloadItems("csv", { clean: true, bom: false });
seen.csvHeader = csv.toString().split("\n")[0];

const store = client.keyValueStore(run.defaultKeyValueStoreId);
seen.input = (await store.getRecord("INPUT")).value.do;
await store.setRecord({ key: "note", value: "text", contentType: "text/plain" });
seen.keys = (await store.listKeys()).items.map((item) => item.key);
seen.note = (await store.getRecord("note")).value;
seen.logged = (await client.log(run.id).get()).includes("probe begins push");

const long = await probe.start({ do: "sleep" });
await client.run(long.id).abort();
seen.aborted = (await client.run(long.id).waitForFinish()).status;

try {
    await probe.start({});
} catch (error) {
    seen.refusal = { statusCode: error.statusCode, type: error.type };
}
seen.missing = (await client.run("nothing").get()) === undefined;

const queue = client.requestQueue((await client.requestQueues().getOrCreate()).id);
await queue.addRequest({ url: "https://example.com/", uniqueKey: "one" });
seen.queued = (await queue.listHead()).items[0].url;
const own = client.dataset((await client.datasets().getOrCreate("from-javascript")).id);
await own.pushItems([{ from: "javascript" }]);
seen.pushed = (await own.listItems()).items;

console.log(JSON.stringify(seen));
