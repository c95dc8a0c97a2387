// The official TypeScript MCP client as an agent uses it: lists the tools and makes the given calls in order. It knows
// nothing about this service; its caller does the signing.
//
// Standard input, a line each: the server's URL, then {"tool": ..., "arguments": {...}, "meta": {...}}. Standard output,
// a line each: {"tools": [...]} once connected, then {"isError", "structured", "text", "meta"} for each call.

import { createInterface } from "node:readline";

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const client = new Client({ name: "tools-test", version: "1.0.0" });
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

await client.connect(new StreamableHTTPClientTransport(new URL((await lines.next()).value)));
console.log(JSON.stringify({ tools: (await client.listTools()).tools }));
for await (const line of lines) {
  const { tool, arguments: given, meta } = JSON.parse(line);
  // callTool holds structuredContent against the tool's outputSchema and throws when it does not fit.
  const result = await client.callTool({ name: tool, arguments: given, ...(meta ? { _meta: meta } : {}) });
  console.log(
    JSON.stringify({
      isError: result.isError ?? false,
      structured: result.structuredContent ?? null,
      text: result.content[0]?.text ?? null,
      meta: result._meta ?? null,
    }),
  );
}
await client.close();
