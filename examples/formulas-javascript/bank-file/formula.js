// Builds a fixed-width file of credit transfers: a header, a line of 80 characters for each payment, a trailer with
// totals. The file is a token beside those of bank accounts, in `/bank/high/`: the reactor's application, or the caller if it
// has none, needs a rule that lets it create tokens there. The caller learns the file's totals and its digest.
//
// Arguments: `payments` (each with `account` (a bank token's data), `name`, `amount` in minor units), `date` (YYYY-MM-DD).
// Configuration: `COMPANY_ID`, `COMPANY_NAME`. Names are cut to their fields and lose what the format has no characters for;
// whatever else does not fit is refused.

const WIDTH = 80;
// With more of them the file is larger than a token may be.
const PAYMENTS_MAX = 9000;
const AMOUNT_MAX = 9_999_999_999;
const TOTAL_MAX = 999_999_999_999;

const plain = (value) => value.toUpperCase().normalize('NFKD').replace(/[^A-Z0-9 .,/-]/g, '').trim();
const text = (value, width) => plain(value).slice(0, width).padEnd(width, ' ');
const digits = (value, width) => String(value).padStart(width, '0');

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

const isDate = (date) => /^\d{4}-\d\d-\d\d$/.test(date) && !Number.isNaN(Date.parse(date))
  && new Date(date).toISOString().startsWith(date);

// The last digit of a routing number makes this sum one that ten divides.
const isRoutingNumber = (number) => /^\d{9}$/.test(number)
  && [...number].reduce((sum, digit, at) => sum + digit * [3, 7, 1][at % 3], 0) % 10 === 0;

const isText = (value) => typeof value === 'string' && /[A-Z0-9]/.test(plain(value));

// What is wrong with a payment, by its members.
function* faults(payment) {
  if (payment === null || typeof payment !== 'object') {
    yield ['', 'must be an object'];
    return;
  }
  const { account, name, amount } = payment;
  if (account === null || typeof account !== 'object') {
    yield ['.account', 'is no bank account'];
  } else {
    const { routing_number: routing, account_number: number } = account;
    if (typeof routing !== 'string' || !isRoutingNumber(routing)) {
      yield ['.account.routing_number', 'is no routing number'];
    }
    if (typeof number !== 'string' || !/^\d{1,17}$/.test(number)) {
      yield ['.account.account_number', 'must have 1 to 17 digits'];
    }
  }
  if (!isText(name)) yield ['.name', 'must have letters or digits'];
  if (!Number.isInteger(amount) || amount <= 0) yield ['.amount', 'must be positive'];
  else if (amount > AMOUNT_MAX) yield ['.amount', 'must have at most 10 digits'];
}

function check(payments, date) {
  const errors = {};
  const isRight = () => Object.keys(errors).length === 0;
  payments.forEach((payment, index) => {
    for (const [member, message] of faults(payment)) errors[`args.payments[${index}]${member}`] = message;
  });
  if (!isDate(date)) errors['args.date'] = 'must be a date, YYYY-MM-DD';
  if (payments.length < 1 || payments.length > PAYMENTS_MAX) {
    errors['args.payments'] = `must have 1 to ${PAYMENTS_MAX} entries`;
  } else if (isRight() && payments.reduce((sum, { amount }) => sum + amount, 0) > TOTAL_MAX) {
    errors['args.payments'] = 'must sum up to 12 digits at most';
  }
  if (!isRight()) throw new BadRequestError({ detail: 'Some payments cannot be made.', errors });
}

// What is wrong here no caller can mend.
function checkCompany({ COMPANY_ID, COMPANY_NAME }) {
  // Without a character it would be another company's.
  if (!/^[A-Za-z0-9 .,/-]+$/.test(COMPANY_ID) || !isText(COMPANY_ID) || plain(COMPANY_ID).length > 10) {
    throw new ReactorRuntimeError('COMPANY_ID must have 1 to 10 characters: A to Z, digits, blanks and . , / -');
  }
  if (!isText(COMPANY_NAME)) throw new ReactorRuntimeError('COMPANY_NAME must have letters or digits.');
}

module.exports = async ({ args: { payments, date }, configuration }) => {
  check(payments, date);
  checkCompany(configuration);
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
    tokenize: { type: 'token', data: btoa(file), containers: ['/bank/high/'], metadata: { date, kind: 'bank-file' } },
  };
};
