// What a client of 2026-07-28 does, with the official TypeScript SDK of that revision.
// Prints what it saw, as JSON, without what is each server's own. Arguments: folder of the SDK, URL, token.
import { pathToFileURL } from 'node:url';

const [sdk, url, token] = process.argv.slice(2);
const { Client, StreamableHTTPClientTransport } = await import(pathToFileURL(`${sdk}/dist/index.mjs`).href);

const INPUT = { seconds: 1.5, steps: 3, rows: 2 };
const client = new Client(
    { name: 'a-client-of-apify', version: '1.0.0' },
    { versionNegotiation: { mode: { pin: '2026-07-28' } } },
);
const requestInit = { headers: { Authorization: `Bearer ${token}` } };
await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }));

const refused = async (request) => {
    try {
        await request();
    } catch (error) {
        return [error.constructor.name, error.code, error.message.split('\n')[0].split('. ')[0].replace(/\.$/, '')];
    }
    return [];
};
const call = (name, args, options) => client.callTool({ name, arguments: args }, options);

const { tools } = await client.listTools();
const messages = [];
const { structuredContent: run } = await call(
    'call-actor',
    { actor: 'outlast/sleeper', input: INPUT, waitSecs: 45 },
    { onprogress: ({ message }) => messages.push(message) },
);
const page = await call('get-dataset-items', { datasetId: run.storages.datasets.default.id, fields: 'index' });
const failed = await call('get-actor-run', { runId: 'nothingHere12345x' });
console.log(JSON.stringify({
    revision: client.getNegotiatedProtocolVersion(),
    tools: tools.map((tool) => [tool.name, tool.title]),
    run: [run.status, run.actorName, Object.keys(run).sort()],
    progress: messages.every((message) => /^outlast\/sleeper: [A-Z]+/.test(message)) && messages.length > 0,
    page: page.structuredContent.items,
    failed: [failed.isError, failed.content[0].text.slice(0, 40)],
    refused: {
        'an unknown tool': await refused(() => call('nothing', {})),
        'a missing argument': await refused(() => call('call-actor', { actor: 'outlast/sleeper' })),
        'an unknown resource': await refused(() => client.readResource({ uri: 'file:///x' })),
    },
}));
await client.close();
process.exit(0);
