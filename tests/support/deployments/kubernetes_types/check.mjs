// Objects of KEDA and the Prometheus operator, a JSON array on standard input, against the APIs they are for. The types
// find what is unknown, missing or of another kind; the validators what does not match its pattern.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import ts from "typescript";

const PACKAGES = { "keda.sh": "@kubernetes-models/keda", "monitoring.coreos.com": "@kubernetes-models/prometheus-operator" };
const OPTIONS = {
  module: ts.ModuleKind.NodeNext,
  noEmit: true,
  skipLibCheck: true,
  strict: true,
  target: ts.ScriptTarget.ES2022,
  types: [],
};

const objects = JSON.parse(readFileSync(0, "utf8"));
const moduleOf = ({ apiVersion }) => `${PACKAGES[apiVersion.split("/")[0]]}/${apiVersion}`;
const complaints = [...typeErrors(), ...(await violations())];
console.log(complaints.join("\n"));
process.exit(complaints.length ? 1 : 0);

/** What TypeScript says of the objects as literals, of which it takes no unknown keys. */
function typeErrors() {
  const file = fileURLToPath(new URL("objects.ts", import.meta.url));
  const lines = objects.map(
    (object, at) => `export const object${at}: import("${moduleOf(object)}").I${object.kind} = ${JSON.stringify(object)};`,
  );
  const host = ts.createCompilerHost(OPTIONS);
  const { fileExists, getSourceFile } = host;
  host.fileExists = (name) => name === file || fileExists(name);
  host.getSourceFile = (name, ...rest) =>
    name === file ? ts.createSourceFile(name, lines.join("\n"), OPTIONS.target) : getSourceFile(name, ...rest);
  return ts.getPreEmitDiagnostics(ts.createProgram([file], OPTIONS, host)).map(told);
}

function told({ file, start, messageText }) {
  const at = file ? objects[file.getLineAndCharacterOfPosition(start).line] : undefined;
  return `${at ? `${at.kind} ${at.metadata.name}` : "objects"}: ${ts.flattenDiagnosticMessageText(messageText, " ")}`;
}

/** What the validators say. */
async function violations() {
  const found = [];
  for (const object of objects) {
    const { [object.kind]: Model } = await import(moduleOf(object));
    try {
      new Model(object).validate();
    } catch (error) {
      found.push(`${object.kind} ${object.metadata.name}: ${error.message}`);
    }
  }
  return found;
}
