// Asks two services about a person and keeps what they tell as tokens.
//
// Arguments: `person` with `ssn` and `name`. Configuration: `CREDIT_URL`, `IDENTITY_URL`, `CUSTOMER_KEY`. The hosts stand in
// `allowed_hosts`. The reactor has an application that may create and search tokens: the answer of a person who was asked
// about before is found again.
const credit = async (url, person) => {
  const response = await fetch(`${url}?${new URLSearchParams({ ssn: person.ssn })}`);
  if (!response.ok) throw new Error(`credit answered ${response.status}`);
  const { score, report } = await response.json();
  return { score, report };
};

const identity = async (url, person) => {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ ssn: person.ssn, names: person.name.split(/\s+/) }),
  });
  if (!response.ok) throw new Error(`identity answered ${response.status}`);
  return response.json();
};

// What a person is found by, kept in the clear as metadata. A social security number has nine digits, so whoever knows the
// key finds the number by trying all of them: the key is a value of the configuration, which the vault seals, and not here.
async function customerOf(person, secret) {
  const bytes = (text) => new TextEncoder().encode(text);
  if (secret.length < 32) throw new ReactorRuntimeError('CUSTOMER_KEY is too short to be a secret.');
  const key = await crypto.subtle.importKey('raw', bytes(secret), { name: 'HMAC', hash: 'SHA-256' }, false, ['sign']);
  const mac = await crypto.subtle.sign('HMAC', key, bytes(person.ssn));
  return Buffer.from(mac).toString('hex').slice(0, 32);
}

module.exports = async ({ args: { person }, configuration: { CREDIT_URL, IDENTITY_URL, CUSTOMER_KEY }, svc }) => {
  const customer = await customerOf(person, CUSTOMER_KEY);
  const known = await svc.tokens.search({ query: `metadata.customer:${customer}` });
  if (known.data.length > 0) return { raw: { known: true, customer } };

  const [asked, matched] = await Promise.allSettled([credit(CREDIT_URL, person), identity(IDENTITY_URL, person)]);
  if (asked.status === 'rejected') throw new ServiceUnavailableError('The credit service gave no answer.');
  if (matched.status === 'rejected') console.warn('without identity:', matched.reason);

  const metadata = { customer };
  return {
    raw: { known: false, customer, score: asked.value.score, matched: matched.value?.matched ?? null },
    tokenize: {
      report: { type: 'token', data: asked.value.report, metadata },
      ...(matched.status === 'fulfilled' && { identity: { type: 'token', data: matched.value, metadata } }),
    },
  };
};
