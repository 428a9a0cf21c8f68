#!/usr/bin/env python3
"""A checkout: stores a card, finds it, runs a formula on it, and verifies the webhook that tells the result.

    BASE=http://127.0.0.1:8080 PRIVATE=key_prv_… MANAGEMENT=key_mgt_… REACTOR=… python3 checkout.py

The server is one that `tokamak dev` started: it may call this machine back over plain http.
"""

import base64
import hashlib
import hmac
import json
import os
import queue
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer

BASE = os.environ["BASE"]
PRIVATE, MANAGEMENT = os.environ["PRIVATE"], os.environ["MANAGEMENT"]
REACTOR = os.environ["REACTOR"]
TOLERANCE_SECONDS = 5 * 60


def call(key, method, path, body=None):
    """Sends a request; what is no success is an exception that holds the problem."""
    request = urllib.request.Request(BASE + path, method=method)
    request.add_header("SVC-API-KEY", key)
    if body is not None:
        request.add_header("Content-Type", "application/json")
        request.data = json.dumps(body).encode()
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        raise SystemExit(f"{method} {path}: {error.code} {error.read().decode()}")


def verify(secrets, headers, body):
    """Standard Webhooks: a signature by one of the secrets over id, time and the bytes as they came."""
    sent = headers["webhook-timestamp"]
    if abs(time.time() - int(sent)) > TOLERANCE_SECONDS:
        return False
    signed = f"{headers['webhook-id']}.{sent}.".encode() + body
    for secret in secrets:
        key = base64.b64decode(secret.removeprefix("whsec_"))
        expected = "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
        if any(hmac.compare_digest(expected, given) for given in headers["webhook-signature"].split()):
            return True
    return False


def receiver(secrets):
    """A receiver on a free port; what it believes comes out of the queue."""
    received = queue.Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            believed = verify(secrets, self.headers, body)
            self.send_response(204 if believed else 401)
            self.end_headers()
            if believed:
                received.put(json.loads(body))

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/hook", received


def main():
    order = f"order-{time.time_ns()}"

    # Create. What comes back is masked; the number stays in the vault.
    card = {"number": "4242424242424242", "expiration_month": 12, "expiration_year": 2030, "cvc": "123"}
    token = call(PRIVATE, "POST", "/tokens", {"type": "card", "data": card, "metadata": {"order": order}})
    print("stored", token["id"], token["data"]["number"])

    # Search, by what is not sensitive.
    found = call(PRIVATE, "POST", "/tokens/search", {"query": f'type:card AND metadata.order:"{order}"'})
    assert [one["id"] for one in found["data"]] == [token["id"]]
    print("found", found["pagination"]["total_items"])

    # React, and wait for the answer: the formula gets the card, this program never does.
    args = {"card": "{{ %s }}" % token["id"]}
    answer = call(PRIVATE, "POST", f"/reactors/{REACTOR}/react", {"args": args})
    print("answered", answer["raw"]["brand"], answer["raw"]["last4"])

    # React without waiting: the result comes as a webhook.
    secrets = [one["secret"] for one in call(MANAGEMENT, "GET", "/webhooks/signing-secrets")]
    callback_url, received = receiver(secrets)
    body = {"args": args, "callback_url": callback_url}
    queued = call(PRIVATE, "POST", f"/reactors/{REACTOR}/react", body)
    event = received.get(timeout=60)
    assert event["data"]["invocation_id"] == queued["invocation_id"]
    print("verified", event["type"], event["data"]["response"]["raw"]["last4"])


main()
