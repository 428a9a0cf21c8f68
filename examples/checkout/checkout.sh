#!/bin/sh
# A checkout with curl: stores a card, finds it, runs a formula on it, and asks for the result of a run that is queued.
#
#   BASE=http://127.0.0.1:8080 PRIVATE=key_prv_… REACTOR=… [CALLBACK=http://…] sh checkout.sh
#
# CALLBACK is where the result is told as well; `verify.sh` checks what arrives there.
set -eu

call() {
    method=$1 path=$2
    shift 2
    curl --silent --show-error --fail-with-body --request "$method" "$BASE$path" \
        --header "SVC-API-KEY: $PRIVATE" --header 'Content-Type: application/json' "$@"
}

# The first member of this name in the JSON on standard input, a text.
member() {
    sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p" | head -n 1
}

ORDER="order-$$-$(date +%s)"

# Create. What comes back is masked; the number stays in the vault.
TOKEN=$(call POST /tokens --data "{
    \"type\": \"card\",
    \"data\": {\"number\": \"4242424242424242\", \"expiration_month\": 12, \"expiration_year\": 2030, \"cvc\": \"123\"},
    \"metadata\": {\"order\": \"$ORDER\"}
}" | sed 's/^{"id":"\([^"]*\)".*/\1/')
echo "stored $TOKEN"

# Search, by what is not sensitive.
FOUND=$(call POST /tokens/search --data "{\"query\": \"type:card AND metadata.order:\\\"$ORDER\\\"\"}")
echo "found $(echo "$FOUND" | sed 's/.*"total_items":\([0-9]*\).*/\1/')"

# React, and wait for the answer.
ANSWER=$(call POST "/reactors/$REACTOR/react" --data "{\"args\": {\"card\": \"{{ $TOKEN }}\"}}")
echo "answered $(echo "$ANSWER" | member last4)"

# React without waiting, and ask for the result until it is there.
CALLBACK=${CALLBACK:-http://127.0.0.1:9/nobody-is-there}
QUEUED=$(call POST "/reactors/$REACTOR/react" \
    --data "{\"args\": {\"card\": \"{{ $TOKEN }}\"}, \"callback_url\": \"$CALLBACK\"}")
INVOCATION=$(echo "$QUEUED" | member invocation_id)
TRIES=0
while RESULT=$(call GET "/reactors/$REACTOR/results/$INVOCATION") &&
    ! echo "$RESULT" | grep -q '"status":"\(completed\|failed\)"'; do
    TRIES=$((TRIES + 1))
    [ "$TRIES" -lt 120 ] || { echo 'no result came' >&2; exit 1; }
    sleep 0.5
done
echo "told $(echo "$RESULT" | member last4)"
