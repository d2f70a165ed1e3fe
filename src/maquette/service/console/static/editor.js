// The SQL editor. It lives in a shadow root, so that its styles are constructed sheets and need no exception in the
// content security policy.

import * as cm from "./vendor/codemirror.js";
import { h } from "./dom.js";
import { literal, name } from "./names.js";

const look = cm.EditorView.theme({
  "&": { color: "var(--ink)", backgroundColor: "var(--card)", fontSize: "15px" },
  "&.cm-focused": { outline: "none" },
  ".cm-content": { fontFamily: "ui-monospace, 'SF Mono', Menlo, Consolas, monospace", minHeight: "5.6em", padding: "10px 4px", caretColor: "var(--ink)" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  ".cm-placeholder": { color: "var(--soft)" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--select)" },
  ".cm-tooltip": { backgroundColor: "var(--card)", color: "var(--ink)", border: "1px solid var(--line)", borderRadius: "6px" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--on-accent)" },
  ".cm-completionDetail": { color: "var(--soft)" },
  ".cm-tooltip-autocomplete ul li[aria-selected] .cm-completionDetail": { color: "inherit" },
});

const colours = cm.HighlightStyle.define([
  { tag: cm.tags.keyword, color: "var(--accent)", fontWeight: "600" },
  { tag: [cm.tags.string, cm.tags.number, cm.tags.bool], color: "var(--literal)" },
  { tag: cm.tags.comment, color: "var(--soft)", fontStyle: "italic" },
]);

const MOST = 5000; // levels of a column that completion searches

// What completion offers: the table, its columns, and after `column =` or `IN (` the column's levels.
function offered(table) {
  const columns = table.columns.map((column) => ({ label: name(column.name), type: "property", detail: column.kind }));
  const functions = ["count(*)", "avg()", "sum()", "median()", "stddev()"].map((label) => ({ label, type: "function" }));
  const words = ["SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "HAVING", "LIMIT", "AND", "OR", "NOT", "IN", "BETWEEN", "AS"];
  const all = [...columns, ...functions, { label: table.name, type: "class", detail: "table" }, ...words.map((label) => ({ label, type: "keyword" }))];
  return (context) => {
    const comparing = context.matchBefore(/("[^"]+"|\w+)\s*(=|<>|IN\s*\()\s*'?[\w -]*$/i);
    const [, quoted, plain] = /^(?:"([^"]+)"|(\w+))/.exec(comparing?.text ?? "") ?? [];
    const column = table.columns.find((each) => each.name === (quoted ?? plain));
    if (column?.levels) {
      const from = context.matchBefore(/'?[\w-]*$/)?.from ?? context.pos;
      return { from, options: column.levels.slice(0, MOST).map((text) => ({ label: literal(column, text), type: "constant" })) };
    }
    const word = context.matchBefore(/[\w"]+$/);
    if (!word && !context.explicit) return null;
    return { from: word ? word.from : context.pos, options: all };
  };
}

export function editor({ table, text, onChange, onRun }) {
  const host = h("div", { class: "editor" });
  const root = host.attachShadow({ mode: "open" });
  const place = h("div");
  root.append(place);
  const run = () => {
    onRun();
    return true;
  };
  const view = new cm.EditorView({
    parent: place,
    root,
    state: cm.EditorState.create({
      doc: text,
      extensions: [
        cm.Prec.highest(cm.keymap.of([{ key: "Mod-Enter", run }])),
        cm.history(),
        cm.drawSelection(),
        cm.bracketMatching(),
        cm.closeBrackets(),
        cm.sql({ dialect: cm.StandardSQL }),
        cm.autocompletion({ override: [offered(table)], icons: false }),
        cm.syntaxHighlighting(colours),
        cm.keymap.of([...cm.closeBracketsKeymap, ...cm.completionKeymap, ...cm.historyKeymap, ...cm.defaultKeymap]),
        cm.EditorView.lineWrapping,
        cm.EditorView.contentAttributes.of({ "aria-label": "Your question in SQL. Control and Enter asks it. Escape, then Tab, leaves the editor." }),
        cm.EditorView.updateListener.of((update) => update.docChanged && onChange(view.state.doc.toString())),
        look,
      ],
    }),
  });
  return {
    element: host,
    text: () => view.state.doc.toString(),
    set: (value) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: value } }),
    insert: (value) => (view.dispatch(view.state.replaceSelection(value)), view.focus()),
    focus: () => view.focus(),
  };
}
