// What may this key see: the decision of an application's rules about a token, before anybody relies on them.

import { SHOWS_DATA, TOKEN_RIGHTS, asContainer, decide, fed, seen } from "./access.js";
import { ask, may } from "./api.js";
import { textField } from "./fields.js";
import { compact, marked } from "./format.js";
import { html, nothing } from "./lit.js";
import { badge, shown, table } from "./parts.js";
import { load } from "./state.js";

const TONES = { plaintext: "warn", masked: "good", "masked data": "good", nothing: "plain", refused: "bad" };

/**
 * The preview. `held.places` keeps the containers that are asked about, `held.first` those that it begins with until others
 * are written, `held.sample` tokens that it is tried on.
 */
export function preview(application, held) {
  if (application.type === "management") {
    return html`<p>A management application sees no tokens.</p>`;
  }
  const first = firstContainer(application);
  if (held.places === held.first) held.places = first;
  held.first = first;
  const places = held.places.trim().split(/[\s,]+/).map(asContainer);
  return html`${textField("Containers of a token", held, "places", { hint: "One or more, apart by spaces, such as /pci/high/" })}
    ${table("What the key may do there", ["Right", "Decided by", "Sees data as"], TOKEN_RIGHTS.map((right) => row(application, right, places)))}
    ${may("token:search") ? sample(application, held) : nothing}
    <p class="small">Computed in this page as the server does it; the server's own answer is what counts.</p>`;
}

function firstContainer(application) {
  return (application.rules ?? []).find((rule) => rule.container)?.container ?? "/general/high/";
}

function row(application, right, places) {
  const rule = decide(application, right, places);
  return [html`<code>${right}</code>`, rule ? by(rule) : "no rule", sees(right, rule)];
}

function by(rule) {
  return rule.implied ? "its permissions" : html`rule ${rule.priority} on <code>${rule.container}</code>`;
}

function sees(right, rule) {
  if (!rule) return badge("refused", "bad");
  if (right === "token:use") return html`its formula gets ${badge(fed(rule), TONES[fed(rule)])}`;
  if (!SHOWS_DATA.includes(right)) return badge("allowed", "good");
  return badge(seen(rule), TONES[seen(rule)]);
}

function sample(application, held) {
  const look = () => load(held, "sample", async () => {
    const { data } = await ask("token:search", "POST", "/tokens/search", { body: { query: null, size: 10 } });
    return data.map(({ id, containers }) => ({ id, containers: containers ?? ["/"] }));
  });
  const shownRow = ({ id, containers }) => {
    const rule = decide(application, "token:read", containers);
    return [html`<code>${marked(compact(id, 40))}</code>`, html`<code>${containers.join(" ")}</code>`, sees("token:read", rule), rule ? by(rule) : "no rule"];
  };
  return html`<div class="row"><button type="button" class="quiet" @click=${look}>Try it on the newest tokens</button></div>
    ${shown(held.sample, (tokens) => table("What it would see of the newest tokens", ["Token", "Containers", "Sees data as", "Decided by"], tokens.map(shownRow)))}`;
}
