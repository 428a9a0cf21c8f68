// Where it begins.

import { frame } from "./app.js";
import { render } from "./lit.js";
import { onRedraw, redraw } from "./state.js";

const place = document.getElementById("console");

onRedraw(() => render(frame(), place));
redraw();
