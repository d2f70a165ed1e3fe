// Elements from data. Text is always set as text: nothing that comes from data is ever parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "disabled" || name === "selected") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

// h("button", { type: "button", onclick }, "Ask")
export const h = (tag, properties, ...children) => fill(document.createElement(tag), properties, children);

export const s = (tag, properties, ...children) => fill(document.createElementNS(SVG, tag), properties, children);

export const replace = (place, ...children) => {
  place.replaceChildren(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return place;
};

let made = 0;

// A label and its control, joined by an id.
export function field(label, control, hint = null) {
  const id = (control.id ||= `field-${++made}`);
  const help = hint && h("span", { class: "hint", id: `${id}-hint` }, hint);
  if (help) control.setAttribute("aria-describedby", help.id);
  return h("div", { class: "field" }, h("label", { for: id }, label), control, help);
}

export const options = (choices, chosen) =>
  choices.map((choice) => {
    const [value, text] = Array.isArray(choice) ? choice : [choice, choice];
    return h("option", { value, selected: value === chosen }, text);
  });

export function later(milliseconds, act) {
  let waiting = null;
  return (...given) => {
    clearTimeout(waiting);
    waiting = setTimeout(() => act(...given), milliseconds);
  };
}

// Of several requests under way the last one draws: `const last = turn(); await ...; if (!last()) return;`
export function turns() {
  let now = 0;
  return () => {
    const own = ++now;
    return () => own === now;
  };
}

// Say something to people who cannot see that the page changed.
export function announce(text) {
  const place = document.getElementById("announcements");
  if (place) place.textContent = text;
}
