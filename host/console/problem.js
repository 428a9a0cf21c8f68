// What an answer that is an error says of itself, in one form whoever gave it: the server, a formula, or what stands before them.

/** What went wrong; an answer that a formula shaped may be anything. */
export function problemIn(response, text) {
  let body = null;
  try {
    body = JSON.parse(text);
  } catch {
    // It is shown as it is.
  }
  const isProblem = typeof body?.title === "string" && typeof body?.detail === "string";
  const { status } = response;
  const trace = response.headers.get("svc-trace-id");
  // Only a run that began has one.
  const run = response.headers.get("svc-invocation-id");
  // Seconds; what stands before the server may say a date, or nothing.
  const wait = Number(response.headers.get("retry-after")) || undefined;
  // A browser may send again what was not answered, while it is still done.
  const isUnderWay = isProblem && status === 409 && body.detail.includes("idempotency key");
  // What stands before the server says only that it waited no longer.
  const isLost = isUnderWay || (status >= 500 && trace === null);
  const detail = isUnderWay ? "It was asked for before, and is being carried out: the answer to that was lost." : body?.detail;
  if (isProblem) return { title: body.title, status, detail, errors: errorsOf(body), trace_id: trace, run, wait, isLost };
  return {
    title: `Status ${status}`,
    status,
    detail: text === "" ? "The answer is empty." : text.slice(0, 4000),
    errors: {},
    trace_id: trace,
    run,
    wait,
    isLost,
  };
}

/** What is said of members, as far as it has the server's form: lists of texts. */
function errorsOf({ errors }) {
  const isTexts = (texts) => Array.isArray(texts) && texts.every((text) => typeof text === "string");
  return Object.fromEntries(Object.entries(errors ?? {}).filter(([, texts]) => isTexts(texts)));
}
