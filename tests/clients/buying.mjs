// What the buyers have in common: an order on standard input, the client it names, and what came back or what stopped
// it on standard output.

/** `buyers`: by client, what pays for an order and returns its status, body and the header that tells of settlement. */
export async function answer(buyers, decode) {
  let given = "";
  for await (const chunk of process.stdin) given += chunk;
  const order = JSON.parse(given);
  try {
    const { header, ...answered } = await buyers[order.client](order);
    console.log(JSON.stringify({ ...answered, settled: header ? decode(header) : null }));
  } catch (error) {
    console.log(JSON.stringify({ stopped: error.message }));
  }
}

/** A body as JSON, as `fetch` takes it. */
export function posted(body) {
  return { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
}
