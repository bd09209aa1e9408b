// What a client written for Apify's server does, with the official TypeScript SDK.
// Prints what it saw, as JSON, without what is each server's own. Arguments: folder of the SDK, URL, token.
import { pathToFileURL } from 'node:url';

const [sdk, url, token] = process.argv.slice(2);
const part = (path) => import(pathToFileURL(`${sdk}/dist/esm/${path}`).href);
const { Client } = await part('client/index.js');
const { StreamableHTTPClientTransport } = await part('client/streamableHttp.js');
const { CallToolResultSchema } = await part('types.js');

const INPUT = { seconds: 0.3, steps: 3, rows: 2 };
const client = new Client({ name: 'a-client-of-apify', version: '1.0.0' }, { capabilities: {} });
const requestInit = { headers: { Authorization: `Bearer ${token}` } };
await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }));

const refused = async (name, args) => {
    try {
        await client.callTool({ name, arguments: args });
    } catch (error) {
        return [error.code, error.message.split('\n')[0].split('. ')[0].replace(/\.$/, '')];
    }
    return [];
};

const { tools } = await client.listTools();
const messages = [];
const call = await client.callTool(
    { name: 'call-actor', arguments: { actor: 'outlast/sleeper', input: { ...INPUT, seconds: 1.5 }, waitSecs: 45 } },
    CallToolResultSchema,
    { onprogress: ({ message }) => messages.push(message) },
);
const run = call.structuredContent;
const datasetId = run.storages.datasets.default.id;
const page = await client.callTool({ name: 'get-dataset-items', arguments: { datasetId, fields: 'index' } });
const told = [];
const task = { name: 'outlast--sleeper', arguments: INPUT };
for await (const message of client.experimental.tasks.callToolStream(task, CallToolResultSchema, { task: { ttl: 60000 } })) {
    told.push(message.type === 'result' ? message.result.structuredContent.status : message.type);
}
console.log(JSON.stringify({
    server: Object.keys(client.getServerCapabilities().tasks),
    tools: tools.map((tool) => [tool.name, tool.title, tool.execution?.taskSupport ?? null]),
    run: [run.status, run.actorName, Object.keys(run).sort()],
    progress: messages.every((message) => /^outlast\/sleeper: [A-Z]+/.test(message)) && messages.length > 0,
    page: page.structuredContent.items,
    task: [told[0], told.at(-1)],
    refused: [await refused('nothing', {}), await refused('call-actor', { actor: 'outlast/sleeper' })],
}));
await client.close();
process.exit(0);
