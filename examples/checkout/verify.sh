#!/bin/sh
# Verifies a webhook by Standard Webhooks, with openssl: exits 0 when the signature is by this secret.
#
#   sh verify.sh SECRET WEBHOOK_ID WEBHOOK_TIMESTAMP WEBHOOK_SIGNATURE < body
#
# SECRET is one that `GET /webhooks/signing-secrets` shows, the rest are the webhook's headers, and the body is given as
# the bytes that came. Others on the machine see a program's arguments: this is to try things out.
set -eu

SECRET=$1 ID=$2 SENT=$3 GIVEN=$4
NOW=$(date +%s)
AGE=$((NOW - SENT))
if [ "$AGE" -gt 300 ] || [ "$AGE" -lt -300 ]; then
    echo 'the webhook is too old, or of the future' >&2
    exit 1
fi
KEY=$(printf '%s' "${SECRET#whsec_}" | openssl base64 -d -A | od -An -v -tx1 | tr -d ' \n')
EXPECTED="v1,$({ printf '%s.%s.' "$ID" "$SENT"; cat; } |
    openssl dgst -sha256 -mac HMAC -macopt "hexkey:$KEY" -binary | openssl base64 -A)"
for ONE in $GIVEN; do
    if [ "$ONE" = "$EXPECTED" ]; then
        echo verified
        exit 0
    fi
done
echo 'the signature is wrong' >&2
exit 1
