// Charts of a few lines over time, in SVG.

import { short } from "./format.js";
import { html, nothing, svg } from "./lit.js";

const WIDTH = 560;
const HEIGHT = 170;
const LEFT = 56;
const BOTTOM = 22;
const TOP = 10;

/** The least of 1, 2 and 5 times a power of ten that is not below a value. */
export function niceTop(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((top) => top >= value * 0.999999);
}

/**
 * A chart with its reading in words. `lines` are `[member, text]`. `points` are objects, oldest first, each of the time `at`,
 * in milliseconds; a member may be `null` where there was nothing to measure, and is missing where nothing was read. The
 * chart ends at the time `until` and begins a `span` before.
 */
export function chart(title, unit, lines, { points, until, span }) {
  const all = points.flatMap((point) => lines.map(([name]) => point[name] ?? 0));
  const top = niceTop(Math.max(0, ...all));
  const x = (at) => LEFT + (WIDTH - LEFT - 6) * (1 - (until - at) / span);
  const y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top);
  const latest = points.at(-1);
  const reading = lines.map(([name, text]) => `${text} ${latest ? short(latest[name] ?? NaN) : "–"}`).join(", ");
  const ticks = [0, 0.5, 1].map((part) => svg`<g class="tick">
    <line x1=${LEFT} x2=${WIDTH - 6} y1=${y(top * part)} y2=${y(top * part)} />
    <text x=${LEFT - 6} y=${y(top * part) + 4} text-anchor="end">${short(top * part)}</text>
  </g>`);
  return html`<figure class="chart card">
    <figcaption><strong>${title}</strong> <span class="small">${unit}</span>
      <ul class="legend">${lines.map(([name, text], index) => html`<li><span class=${`swatch line-${index}`} aria-hidden="true"></span>${text}
        <strong>${latest ? short(latest[name] ?? NaN) : "–"}</strong></li>`)}</ul>
    </figcaption>
    <svg viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label=${`${title}, ${unit}: now ${reading}`}>
      ${ticks}
      <text class="axis" x=${LEFT} y=${HEIGHT - 6}>5 minutes ago</text>
      <text class="axis" x=${WIDTH - 6} y=${HEIGHT - 6} text-anchor="end">now</text>
      ${lines.map(([name], index) => paths(points, name, x, y).map((d) => svg`<path class=${`line line-${index}`} d=${d} />`))}
    </svg>
    ${points.length === 0 ? html`<p class="small">The first reading comes in two seconds.</p>` : nothing}
  </figure>`;
}

/** A line for each stretch without gaps; a single point is a short dash. */
function paths(points, name, x, y) {
  const stretches = [];
  let open = null;
  for (const point of points) {
    const value = point[name];
    if (value === null || value === undefined) open = null;
    else {
      if (!open) stretches.push((open = []));
      open.push(`${x(point.at).toFixed(1)} ${y(value).toFixed(1)}`);
    }
  }
  return stretches.map((stretch) => (stretch.length === 1 ? `M${stretch[0]}h1.5` : `M${stretch.join("L")}`));
}
