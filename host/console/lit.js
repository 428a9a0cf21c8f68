// The one place that names the library: templates, and what draws them.

export { html, svg, nothing, render } from "./vendor/lit-html-3.3.3/lit-html.js";
export { live } from "./vendor/lit-html-3.3.3/directives/live.js";
