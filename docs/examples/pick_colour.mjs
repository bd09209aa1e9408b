// The client's part of `pick_colour` in another language: `outlast client --tools-from docs/examples/client_tools.json`.
// Standard input is the hand-off, standard output the answer, both as one JSON object.
import { readFileSync } from "node:fs";

const handoff = JSON.parse(readFileSync(0, "utf8"));
const colour = handoff.parameters.colours.at(-1);
const answer = colour === "none" ? { action: "decline", message: "There is no colour." } : { content: { colour } };
process.stdout.write(JSON.stringify(answer));
