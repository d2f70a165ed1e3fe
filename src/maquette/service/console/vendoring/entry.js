// What the console uses of CodeMirror, as one file. `rebuild` bundles it into ../static/vendor/codemirror.js.
export { EditorState, Compartment, Prec } from "@codemirror/state";
export { EditorView, keymap, placeholder, drawSelection, highlightSpecialChars } from "@codemirror/view";
export { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
export { autocompletion, completionKeymap, acceptCompletion, closeBrackets, closeBracketsKeymap } from "@codemirror/autocomplete";
export { bracketMatching, syntaxHighlighting, HighlightStyle } from "@codemirror/language";
export { sql, StandardSQL } from "@codemirror/lang-sql";
export { tags } from "@lezer/highlight";
