"""Style: how the page looks on wide and narrow screens, in light and dark, and on paper."""

CSS = """
:root { color-scheme: light dark; --ink: #1c2b33; --soft: #55656f; --page: #f7f8f8; --card: #ffffff; --line: #d5dce0;
  --accent: #17697a; --warn: #8a2b12; --warn-page: #fdeee8; --good: #1b6b44; --mid: #755200; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6ecef; --soft: #a5b5be; --page: #12181c; --card: #1a2227;
  --line: #34424a; --accent: #6fccd9; --warn: #ffb199; --warn-page: #3a1d14; --good: #7edcab; --mid: #ecc874; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); line-height: 1.5;
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 1080px; margin: 0 auto; padding: 24px 20px 64px; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 8px 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 1.3rem; margin: 0 0 8px; }
h3 { font-size: 1rem; margin: 0 0 6px; overflow-wrap: anywhere; }
.scroll + h3, .hazard + h3, .scroll + figure { margin-top: 20px; }
p { margin: 6px 0 10px; max-width: 75ch; }
.soft, caption, figcaption { color: var(--soft); }
nav { display: flex; flex-wrap: wrap; gap: 4px 16px; margin: 14px 0 22px; font-size: .92rem; }
a { color: var(--accent); }
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 20px 22px;
  margin: 0 0 18px; }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; margin: 14px 0; }
.fact { border: 1px solid var(--line); border-radius: 8px; padding: 10px 12px; min-width: 0; }
.fact b { display: block; font-size: 1.25rem; font-weight: 600; overflow-wrap: anywhere; }
.fact span { color: var(--soft); font-size: .85rem; }
.two { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 380px), 1fr)); gap: 10px 28px;
  align-items: start; }
.grid { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 300px), 1fr)); gap: 22px 28px; }
figure { margin: 0; min-width: 0; break-inside: avoid; }
figcaption { font-size: .85rem; }
.chart { width: 100%; min-width: 0; color: var(--ink); }
.chart svg { display: block; max-width: 100%; height: auto; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { text-align: left; vertical-align: top; padding: 6px 10px 6px 0; border-bottom: 1px solid var(--line); }
td { overflow-wrap: break-word; }
th span { display: block; font-weight: normal; font-size: .85rem; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
td.number { white-space: nowrap; }
.banner { border: 2px solid var(--warn); background: var(--warn-page); color: var(--warn); border-radius: 10px;
  padding: 14px 20px; margin: 0 0 18px; font-weight: 600; }
.banner strong { display: block; font-size: 1.35rem; letter-spacing: .04em; }
.hazard { display: grid; grid-template-columns: 210px 1fr; gap: 2px 18px; padding: 9px 0;
  border-top: 1px solid var(--line); break-inside: avoid; }
.hazard p { margin: 0; }
.status { display: block; font-weight: 600; font-size: .85rem; }
.status.met { color: var(--good); } .status.partly, .status.yours { color: var(--mid); }
.status.not { color: var(--warn); }
pre { overflow-x: auto; font-size: .8rem; background: var(--page); border: 1px solid var(--line); border-radius: 8px;
  padding: 12px; }
code { overflow-wrap: anywhere; font-size: .88em; }
caption { text-align: left; padding: 4px 0; }
.skip { position: absolute; left: -9999px; } .skip:focus { position: static; display: block; padding: 8px 20px; }
a:focus-visible, summary:focus-visible, .scroll:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
summary { cursor: pointer; color: var(--accent); }
details { margin: 10px 0; }
#vg-tooltip-element { max-width: 320px; }
@media (max-width: 560px) { main { padding: 12px 10px 40px; } section { padding: 14px 12px; } h1 { font-size: 1.5rem; }
  .hazard { grid-template-columns: 1fr; } table { font-size: .82rem; } th, td { padding-right: 6px; } }
@media print { :root { --ink: #000; --soft: #444; --page: #fff; --card: #fff; --line: #ccc; --accent: #14505a;
  --warn: #8a2b12; --warn-page: #fff; --good: #1f7a4d; --mid: #8a6100; color-scheme: light; }
  @page { size: A4; margin: 16mm 14mm; }
  nav, details, .skip { display: none; } section { border: 0; padding: 0 0 12px; } main { max-width: none; padding: 0; }
  body { font-size: 11pt; } h2, h3, h2 + p { break-after: avoid; }
  p, tr, table, .fact, .banner, .grid > div, .two > div { break-inside: avoid; }
  .grid, .two { grid-template-columns: 1fr 1fr; } .scroll { overflow: visible; }
  .chart, .status { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  pre { white-space: pre-wrap; } }
"""

DRAW = """
(function () {
  const specs = JSON.parse(document.getElementById("specs").textContent);
  const dark = window.matchMedia && window.matchMedia("(prefers-color-scheme: dark)").matches;
  const options = { renderer: "svg", actions: false, tooltip: { theme: dark ? "dark" : "light" } };
  for (const [id, spec] of Object.entries(specs)) {
    const place = document.getElementById(id);
    vegaEmbed(place, spec, options).then(
      () => { place.dataset.drawn = "yes"; },
      (error) => { place.textContent = "This chart could not be drawn."; console.error(id, error); });
  }
})();
"""
