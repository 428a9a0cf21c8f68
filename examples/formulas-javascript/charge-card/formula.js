// Charges a card at a processor.
//
// Arguments: `card` (a card token's data), `amount` in minor units, `currency`, `reference`.
// Configuration: `PROCESSOR_URL`, `API_KEY`, `SIGNING_SECRET`. The processor's host stands in `allowed_hosts`.
const crypto = require('crypto');
const { BadRequestError, InvalidPaymentMethodError, RateLimitError, ServiceUnavailableError } = require('tokamak');

const sign = (secret, text) => crypto.createHmac('sha256', secret).update(text).digest('hex');

module.exports = async function (req) {
  const { args, configuration, invocation } = req;
  const { card, amount, currency = 'USD', reference } = args;
  if (!Number.isInteger(amount) || amount <= 0) {
    throw new BadRequestError('The amount is no positive whole number.', { errors: { 'args.amount': 'must be positive' } });
  }

  const body = JSON.stringify({
    amount,
    currency: currency.toLowerCase(),
    reference,
    source: {
      number: card.number,
      expiry: `${String(card.expiration_month).padStart(2, '0')}/${String(card.expiration_year).slice(-2)}`,
      cvc: card.cvc,
    },
  });
  const url = new URL('/v1/charges', configuration.PROCESSOR_URL);
  url.searchParams.set('expand', 'source');

  let response;
  try {
    response = await fetch(url, {
      method: 'POST',
      headers: {
        authorization: `Basic ${Buffer.from(`${configuration.API_KEY}:`).toString('base64')}`,
        'content-type': 'application/json',
        // The same for every try of this invocation, so that a card is never charged twice.
        'idempotency-key': invocation.id,
        'x-signature': sign(configuration.SIGNING_SECRET, body),
      },
      body,
      signal: AbortSignal.timeout(8000),
    });
  } catch (error) {
    console.error('the processor cannot be reached:', error.name);
    throw new ServiceUnavailableError('The processor cannot be reached.');
  }

  console.log('processor answered', response.status);
  // Before the body is read: such an answer may come from a proxy and be no JSON.
  if (response.status === 429) throw new RateLimitError('The processor takes no more requests for now.');
  if (!response.ok && response.status !== 402) {
    throw new ServiceUnavailableError(`The processor answered ${response.status}.`);
  }
  const answer = await response.json();
  if (response.status === 402) throw new InvalidPaymentMethodError(`The card was declined: ${answer.error.code}.`);

  return {
    raw: { id: answer.id, status: answer.status, amount: answer.amount, last4: card.number.slice(-4) },
    // What the processor calls the card is a secret of its own.
    tokenize: { network_token: { type: 'token', data: answer.network_token, metadata: { reference } } },
  };
};
