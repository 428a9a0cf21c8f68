#!/bin/sh
# Stores a card and runs a formula on it, against a server that `tokamak dev` started.
#
#   BASE=http://127.0.0.1:8080 PRIVATE=key_prv_… REACTOR=… sh examples/curl/store-and-react.sh
set -eu

call() {
    curl --silent --show-error --fail-with-body --header "SVC-API-KEY: $PRIVATE" \
        --header 'Content-Type: application/json' "$@"
}

# The id is evaluated from the number: a pseudonym of the same shape.
TOKEN=$(call "$BASE/tokens" --data '{
    "id": "{{ data.number | alias_card: true, true }}",
    "type": "card",
    "data": {"number": "4242424242424242", "expiration_month": 12, "expiration_year": 2030}
}' | sed 's/^{"id":"\([^"]*\)".*/\1/')
echo "token: $TOKEN"

call "$BASE/reactors/$REACTOR/react" --data "{\"args\": {\"card\": \"{{ $TOKEN }}\"}}"
echo
