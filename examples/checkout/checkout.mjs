// A checkout: stores a card, finds it, runs a formula on it, and verifies the webhook that tells the result.
//
//   BASE=http://127.0.0.1:8080 PRIVATE=key_prv_… MANAGEMENT=key_mgt_… REACTOR=… node checkout.mjs
//
// The server is one that `tokamak dev` started: it may call this machine back over plain http.

import assert from "node:assert/strict";
import { createHmac, timingSafeEqual } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";

const { BASE, PRIVATE, MANAGEMENT, REACTOR } = process.env;
const TOLERANCE_SECONDS = 5 * 60;
const PATIENCE_MS = 60_000;

/** Sends a request; what is no success is an error that holds the problem. */
async function call(key, method, path, body) {
  const headers = { "SVC-API-KEY": key };
  if (body) headers["Content-Type"] = "application/json";
  const answer = await fetch(BASE + path, { method, headers, body: body && JSON.stringify(body) });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
  return JSON.parse(text);
}

/** Standard Webhooks: a signature by one of the secrets over id, time and the bytes as they came. */
function verify(secrets, headers, body) {
  const sent = headers["webhook-timestamp"];
  if (Math.abs(Date.now() / 1000 - Number(sent)) > TOLERANCE_SECONDS) return false;
  const signed = Buffer.concat([Buffer.from(`${headers["webhook-id"]}.${sent}.`), body]);
  const given = headers["webhook-signature"].split(" ").map((text) => Buffer.from(text));
  return secrets.some((secret) => {
    const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
    const expected = Buffer.from("v1," + createHmac("sha256", key).update(signed).digest("base64"));
    return given.some((one) => one.length === expected.length && timingSafeEqual(one, expected));
  });
}

/** A receiver on a free port; `received` is the first webhook that it believes. */
async function receiver(secrets) {
  let believe;
  const received = new Promise((resolve) => (believe = resolve));
  const server = createServer(async (request, response) => {
    const parts = [];
    for await (const part of request) parts.push(part);
    const body = Buffer.concat(parts);
    const believed = verify(secrets, request.headers, body);
    response.writeHead(believed ? 204 : 401).end();
    if (believed) believe(JSON.parse(body));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return { url: `http://127.0.0.1:${server.address().port}/hook`, received, server };
}

const order = `order-${process.hrtime.bigint()}`;

// Create. What comes back is masked; the number stays in the vault.
const card = { number: "4242424242424242", expiration_month: 12, expiration_year: 2030, cvc: "123" };
const token = await call(PRIVATE, "POST", "/tokens", { type: "card", data: card, metadata: { order } });
console.log("stored", token.id, token.data.number);

// Search, by what is not sensitive.
const query = `type:card AND metadata.order:"${order}"`;
const found = await call(PRIVATE, "POST", "/tokens/search", { query });
assert.deepEqual(found.data.map((one) => one.id), [token.id]);
console.log("found", found.pagination.total_items);

// React, and wait for the answer: the formula gets the card, this program never does.
const args = { card: `{{ ${token.id} }}` };
const answer = await call(PRIVATE, "POST", `/reactors/${REACTOR}/react`, { args });
console.log("answered", answer.raw.brand, answer.raw.last4);

// React without waiting: the result comes as a webhook.
const secrets = (await call(MANAGEMENT, "GET", "/webhooks/signing-secrets")).map((one) => one.secret);
const { url, received, server } = await receiver(secrets);
const queued = await call(PRIVATE, "POST", `/reactors/${REACTOR}/react`, { args, callback_url: url });
const late = new Promise((_, reject) => {
  setTimeout(() => reject(new Error("no webhook came")), PATIENCE_MS).unref();
});
const event = await Promise.race([received, late]);
assert.equal(event.data.invocation_id, queued.invocation_id);
console.log("verified", event.type, event.data.response.raw.last4);
server.close();
server.closeAllConnections();
