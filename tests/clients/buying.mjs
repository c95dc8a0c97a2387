// The common part of the buyers: read an order with the client's name from standard input, and print the result, or what
// stopped it, to standard output.

/** `buyers`: by client, a function that pays for an order and returns its status, body and settlement header. */
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
