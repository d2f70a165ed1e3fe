// Elements of a page by a path of roles, labels, texts and CSS with Playwright's :has-text(); what follows acts on `found`.
const roles = { button: "button, [role=button]", link: "a[href]", heading: "h1, h2, h3", meter: "[role=meter]", navigation: "nav" };
const folded = (text) => (text ?? "").replace(/\s+/g, " ").trim();
const fits = (text, wanted, exact) => (exact ? folded(text) === wanted : folded(text).toLowerCase().includes(wanted.toLowerCase()));
const seen = (element) => element.getClientRects().length > 0;
const roots = (root) => [root, ...[...root.querySelectorAll(".editor")].map((host) => host.shadowRoot)];
const all = (root, css) => roots(root).flatMap((each) => [...each.querySelectorAll(css)]);
const named = (element) => element.getAttribute("aria-label") ?? element.textContent;
const steps = {
  css: (root, css) => css.split(/, (?![^(]*\))/).flatMap((part) => {
    const texts = [...part.matchAll(/:has-text\('([^']*)'\)/g)].map((found) => found[1]);
    return all(root, part.replace(/:has-text\('[^']*'\)/g, "")).filter((each) => texts.every((text) => fits(each.textContent, text)));
  }),
  role: (root, role, name, exact) => all(root, roles[role]).filter((each) => seen(each) && (name === null || fits(named(each), name, exact))),
  label: (root, text, exact) => [
    ...all(root, "label").filter((each) => each.control && fits(each.textContent, text, exact)).map((each) => each.control),
    ...all(root, "[aria-label]").filter((each) => fits(each.getAttribute("aria-label"), text, exact)),
  ],
  text: (root, text, exact) => all(root, "*").filter((each) => fits(each.textContent, text, exact) && ![...each.children].some((child) => fits(child.textContent, text, exact))),
};
const [path, ...given] = arguments;
let found = [document];
for (const [kind, ...words] of path) {
  if (kind === "nth") found = found.slice(words[0], words[0] === -1 ? undefined : words[0] + 1);
  else found = [...new Set(found.flatMap((root) => steps[kind](root, ...words)))];
}
