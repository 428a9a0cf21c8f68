// Charges a card at a processor. All that can be wrong with a charge is looked at before it is sent: what fails afterwards
// leaves a card that was charged.
//
// What the processor calls the card becomes a token beside it, in `/pci/high/`: the reactor's application, or the caller if it
// has none, needs a rule that lets it create tokens there. Without one the call ends with a 403 when the card is charged
// already, and the charge's id is in the log alone.
//
// Where it fails and the card may have been charged, the error says so, with the id of the invocation: the same call with that
// as `retry_of` has the key that the processor knows, and is one charge with it. Without it each call is a charge of its own.
//
// Arguments: `card` (a card token's data), `amount` in minor units, `currency`, `reference`, `retry_of`.
// Configuration: `PROCESSOR_URL`, `API_KEY`, `SIGNING_SECRET`. The processor's host stands in `allowed_hosts`.
const crypto = require('crypto');
const {
  BadRequestError, InvalidPaymentMethodError, RateLimitError, ReactorRuntimeError, ServiceUnavailableError,
} = require('tokamak');

const unknown = (key) => `whether the card was charged is not known: to try again, send retry_of ${key}`;

const sign = (secret, text) => crypto.createHmac('sha256', secret).update(text).digest('hex');
const isWhole = (value, least, most) => Number.isInteger(value) && value >= least && value <= most;

// What `formula.json` declares is there, and of its type.
function check({ card, amount, currency, reference, retry_of: retryOf }) {
  const errors = {};
  const expect = (isRight, member, message) => { if (!isRight) errors[`args.${member}`] = message; };
  expect(/^\d{12,19}$/.test(card.number), 'card.number', 'must have 12 to 19 digits');
  expect(isWhole(card.expiration_month, 1, 12), 'card.expiration_month', 'must be 1 to 12');
  expect(isWhole(card.expiration_year, 1000, 9999), 'card.expiration_year', 'must have four digits');
  expect(/^(\d{3,4})?$/.test(card.cvc ?? ''), 'card.cvc', 'must have three or four digits');
  expect(isWhole(amount, 1, Number.MAX_SAFE_INTEGER), 'amount', 'must be positive');
  expect(/^[A-Z]{3}$/i.test(currency), 'currency', 'must have three letters');
  expect(/^([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})?$/i.test(retryOf ?? ''), 'retry_of', 'must be the id of an invocation');
  // It is kept with the token, which takes no more.
  expect((reference ?? '').length <= 1000, 'reference', 'must have at most 1000 characters');
  if (Object.keys(errors).length > 0) throw new BadRequestError('The card cannot be charged so.', { errors });
}

// An answer that is no object says as little as an empty one.
async function read(response) {
  const answer = await response.json().catch(() => null);
  return answer !== null && typeof answer === 'object' ? answer : {};
}

const isText = (value) => typeof value === 'string' && value !== '';
// Codes are words: nothing else of what is said of a refusal goes on to the caller.
const codeOf = ({ error }) => (isText(error?.code) && /^[a-z_]{1,64}$/i.test(error.code) ? error.code : 'no code');

module.exports = async function (req) {
  const { args, configuration, invocation } = req;
  const { card, amount, reference } = args;
  const currency = args.currency ?? 'USD';
  check({ ...args, currency });
  // Processors compare keys letter by letter, and an empty one is none.
  const retryOf = args.retry_of?.toLowerCase() || undefined;
  // The same for each try of one charge: another invocation has another id.
  const key = retryOf ?? invocation.id;
  // What was sent before may have charged the card, whatever is said this time.
  const isRepeated = retryOf !== undefined;

  const body = JSON.stringify({
    amount,
    currency: currency.toLowerCase(),
    reference,
    source: {
      number: card.number,
      expiry: `${String(card.expiration_month).padStart(2, '0')}/${String(card.expiration_year).slice(-2)}`,
      cvc: card.cvc ?? undefined,
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
        'idempotency-key': key,
        'x-signature': sign(configuration.SIGNING_SECRET, body),
      },
      body,
      signal: AbortSignal.timeout(8000),
    });
  } catch (error) {
    console.error('the processor cannot be reached:', error.name);
    const isUnsent = !isRepeated && (error.code === 'denied' || error.code === 'invalid');
    throw new ServiceUnavailableError(`The processor cannot be reached${isUnsent ? '' : `; ${unknown(key)}`}.`);
  }

  console.log('processor answered', response.status);
  // Before the body is read: such an answer may come from a proxy and be no JSON.
  if (response.status === 429) {
    throw new RateLimitError(`The processor takes no more requests for now${isRepeated ? `; ${unknown(key)}` : ''}.`);
  }
  if (!response.ok && response.status !== 402) {
    throw new ServiceUnavailableError(`The processor answered ${response.status}; ${unknown(key)}.`);
  }
  const answer = await read(response);
  if (response.status === 402) throw new InvalidPaymentMethodError(`The card was declined: ${codeOf(answer)}.`);
  if (!isText(answer.id) || !isText(answer.status)) {
    throw new ReactorRuntimeError(`The processor's answer cannot be understood; ${unknown(key)}.`);
  }

  // For who has to find a charge whose answer does not arrive.
  console.log('charged:', answer.id);
  const raw = { id: answer.id, status: answer.status, amount: answer.amount, last4: card.number.slice(-4) };
  // The card is charged, whether or not the processor has a name for it.
  if (!isText(answer.network_token)) return { raw };
  // That name is a secret of its own.
  const kept = { type: 'token', data: answer.network_token, containers: ['/pci/high/'], metadata: { reference } };
  return { raw, tokenize: { network_token: kept } };
};
