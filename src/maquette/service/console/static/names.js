// Names of columns and levels as SQL writes them.

export const name = (column) => (/^[a-z_][a-z0-9_]*$/i.test(column) ? column : `"${column.replaceAll('"', '""')}"`);

export const literal = (column, level) =>
  column.kind === "boolean" ? String(level) : column.kind === "integer" && /^-?\d+$/.test(level) ? level : `'${String(level).replaceAll("'", "''")}'`;
