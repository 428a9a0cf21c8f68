// Asks two services about a person and keeps what they tell as tokens.
//
// Arguments: `person` with `ssn`, nine digits, and `name`. Configuration: `CREDIT_URL`, `IDENTITY_URL`, `CUSTOMER_KEY`. The
// hosts stand in `allowed_hosts`. The reactor has an application that may create and search tokens: the answer of a person who
// was asked about before is found again.
const { BadRequestError, ReactorRuntimeError, ServiceUnavailableError } = require('tokamak');

// A number that is missing or masked would be that of everybody who has none.
function check({ ssn, name }) {
  const errors = {};
  if (typeof ssn !== 'string' || !/^\d{3}-?\d{2}-?\d{4}$/.test(ssn)) errors['args.person.ssn'] = 'must have nine digits';
  if (typeof name !== 'string' || name.trim() === '') errors['args.person.name'] = 'must be a text';
  if (Object.keys(errors).length > 0) throw new BadRequestError('Nobody can be asked about so.', { errors });
}

// In the body: addresses, with whatever is asked for in them, stand in logs along the way.
const ask = async (service, url, body) => {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`${service} answered ${response.status}`);
  const told = await response.json();
  if (told === null) throw new Error(`${service} told nothing`);
  return told;
};

const credit = async (url, person) => {
  const { score, report } = await ask('credit', url, { ssn: person.ssn });
  if (report === undefined || report === null) throw new Error('credit told nothing');
  return { score, report };
};

const identity = (url, person) => ask('identity', url, { ssn: person.ssn, names: person.name.split(/\s+/) });

// What a person is found by, kept in the clear as metadata. A social security number has nine digits, so whoever knows the
// key finds the number by trying all of them: the key is a value of the configuration, which the vault seals, and not here.
async function customerOf(person, secret) {
  const bytes = (text) => new TextEncoder().encode(text);
  if (secret.length < 32) throw new ReactorRuntimeError('CUSTOMER_KEY is too short to be a secret.');
  const key = await crypto.subtle.importKey('raw', bytes(secret), { name: 'HMAC', hash: 'SHA-256' }, false, ['sign']);
  // However it is written, it is one number.
  const mac = await crypto.subtle.sign('HMAC', key, bytes(person.ssn.replaceAll('-', '')));
  return Buffer.from(mac).toString('hex').slice(0, 32);
}

module.exports = async ({ args: { person }, configuration: { CREDIT_URL, IDENTITY_URL, CUSTOMER_KEY }, svc }) => {
  check(person);
  const customer = await customerOf(person, CUSTOMER_KEY);
  const known = await svc.tokens.search({ query: `metadata.customer:${customer}` });
  if (known.data.length > 0) return { raw: { known: true, customer } };

  const [asked, matched] = await Promise.allSettled([credit(CREDIT_URL, person), identity(IDENTITY_URL, person)]);
  if (asked.status === 'rejected') throw new ServiceUnavailableError('The credit service gave no answer.');
  // The kind of error alone: its message may repeat what was answered.
  if (matched.status === 'rejected') console.warn('without identity:', matched.reason.name);

  const metadata = { customer };
  return {
    raw: { known: false, customer, score: asked.value.score, matched: matched.status === 'fulfilled' ? matched.value.matched ?? null : null },
    tokenize: {
      report: { type: 'token', data: asked.value.report, metadata },
      ...(matched.status === 'fulfilled' && { identity: { type: 'token', data: matched.value, metadata } }),
    },
  };
};
