"""`python fastmcp_proxy.py PORT COMMAND ARGUMENT...`: a proxy in front of an MCP server over stdio."""

import sys

from fastmcp.server import create_proxy

if __name__ == "__main__":
    port, command, *arguments = sys.argv[1:]
    servers = {"mcpServers": {"effects": {"command": command, "args": arguments}}}
    create_proxy(servers, name="proxy").run(transport="http", host="127.0.0.1", port=int(port), show_banner=False)
