// Light or dark: as the system has it, until somebody chooses. The choice is for this tab and is not stored.

import { redraw } from "./state.js";

const system = matchMedia("(prefers-color-scheme: dark)");
let chosen = null;

system.addEventListener("change", redraw);

/** Whether the page is dark now. */
export function isDark() {
  return chosen === null ? system.matches : chosen === "dark";
}

/** Changes to the other one. */
export function toggleTheme() {
  chosen = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = chosen;
  redraw();
}
