// A control that chooses one level of a column: a list while its levels are few, else a field that finds them by typing.

import { h, options } from "./dom.js";

const FEW = 30;
let made = 0;

// The level that a text means: itself, in any case of letters, or the only one that contains it.
function meant(levels, text) {
  const sought = text.trim().toLowerCase();
  const near = levels.filter((level) => level.toLowerCase().includes(sought));
  return levels.find((level) => level === text.trim()) ?? near.find((level) => level.toLowerCase() === sought) ?? (sought && near.length === 1 ? near[0] : null);
}

// The control, the list that it offers (to stand beside it), and what reads the chosen level.
export function choosing(levels) {
  if (levels.length <= FEW) {
    const list = h("select", {}, options(levels, null));
    return { control: list, read: () => list.value };
  }
  const offered = h("datalist", { id: `levels-${++made}` }, options(levels, null));
  const control = h("input", { list: offered.id, required: true, autocomplete: "off", spellcheck: "false", placeholder: `type to search ${levels.length} levels`, oninput: () => check() });
  const check = () => control.setCustomValidity(meant(levels, control.value) === null ? `Choose one of the ${levels.length} levels, such as ${levels[0]}.` : "");
  check();
  return { control, offered, read: () => meant(levels, control.value) };
}
