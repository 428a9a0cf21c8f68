// Asks two services about a person and keeps what they tell as tokens.
//
// Arguments: `person` with `ssn` and `name`. Configuration: `CREDIT_URL`, `IDENTITY_URL`.
// The reactor has an application that may create and search tokens: the answer of a person who was asked about before
// is found again.
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

async function customerKey(person) {
  const key = await crypto.subtle.importKey(
    'raw', new TextEncoder().encode('customers'), { name: 'HMAC', hash: 'SHA-256' }, false, ['sign']);
  const mac = await crypto.subtle.sign('HMAC', key, new TextEncoder().encode(person.ssn));
  return Buffer.from(mac).toString('base64url').slice(0, 16);
}

module.exports = async ({ args: { person }, configuration: { CREDIT_URL, IDENTITY_URL }, svc }) => {
  const customer = await customerKey(person);
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
