// Builds a fixed-width file of credit transfers: a header, a line of 80 characters for each payment, a trailer with
// totals. The file is a token; the caller learns its totals and its digest.
//
// Arguments: `payments` (each with `account` (a bank token's data), `name`, `amount` in minor units), `date` (YYYY-MM-DD).
// Configuration: `COMPANY_ID`, `COMPANY_NAME`.

const WIDTH = 80;

const text = (value, width) => String(value).toUpperCase().normalize('NFKD')
  .replace(/[^A-Z0-9 .,/-]/g, '').slice(0, width).padEnd(width, ' ');

const digits = (value, width) => {
  const made = String(value);
  if (!/^\d+$/.test(made) || made.length > width) throw new RangeError('a number does not fit its field');
  return made.padStart(width, '0');
};

class Line {
  #fields = [];
  add(field) { this.#fields.push(field); return this; }
  toString() { return this.#fields.join('').padEnd(WIDTH, ' '); }
}

const header = ({ COMPANY_ID, COMPANY_NAME }, date) => new Line()
  .add('1').add(text(COMPANY_ID, 10)).add(text(COMPANY_NAME, 23)).add(date.replaceAll('-', ''));

const entry = ({ account, name, amount }, sequence) => new Line()
  .add('6').add(digits(account.routing_number, 9)).add(text(account.account_number, 17))
  .add(digits(amount, 10)).add(text(name, 22)).add(digits(sequence, 7));

const trailer = (payments, total, hash) => new Line()
  .add('9').add(digits(payments.length, 6)).add(digits(hash, 10)).add(digits(total, 12));

function check(payments) {
  const errors = {};
  payments.forEach((payment, index) => {
    if (!Number.isInteger(payment.amount) || payment.amount <= 0) errors[`args.payments[${index}].amount`] = 'must be positive';
    if (!/^\d{9}$/.test(payment.account?.routing_number ?? '')) errors[`args.payments[${index}].account`] = 'is no bank account';
  });
  if (Object.keys(errors).length > 0) throw new BadRequestError({ detail: 'Some payments cannot be made.', errors });
}

module.exports = async ({ args: { payments, date }, configuration }) => {
  check(payments);
  const total = payments.reduce((sum, { amount }) => sum + BigInt(amount), 0n);
  const hash = payments.reduce((sum, { account }) => (sum + Number(account.routing_number.slice(0, 8))) % 10 ** 10, 0);
  const lines = [
    header(configuration, date),
    ...payments.map((payment, index) => entry(payment, index + 1)),
    trailer(payments, total, hash),
  ].map(String);
  const file = `${lines.join('\r\n')}\r\n`;
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(file));
  return {
    raw: { lines: lines.length, total: total.toString(), sha256: Buffer.from(digest).toString('hex') },
    tokenize: { type: 'token', data: btoa(file), metadata: { date, kind: 'bank-file' } },
  };
};
