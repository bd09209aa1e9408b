// Loaded before the peer: its process connects to this machine, and to nothing else.
import dns from "node:dns";

const lookup = dns.lookup;
dns.lookup = (host, options, callback) => {
    if (["localhost", "127.0.0.1", "::1"].includes(host)) return lookup(host, options, callback);
    const refused = Object.assign(new Error(`${host} is not on this machine`), { code: "ENOTFOUND" });
    return process.nextTick(callback ?? options, refused);
};
