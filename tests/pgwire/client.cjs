// What a JavaScript program does with node-postgres; the address is in the environment.
const { Client } = require("pg");
const { to } = require("pg-copy-streams");

async function copied(client, sql) {
  let text = "";
  for await (const piece of client.query(to(sql))) text += piece;
  return text.trimEnd().split("\n");
}

async function main() {
  const client = new Client();
  let notices = 0;
  client.on("notice", () => (notices += 1));
  await client.connect();
  const groups = await client.query("SELECT region, count(*) AS n FROM people GROUP BY region");
  console.log(`${groups.rows.length} regions`);
  const first = notices;
  const asked = { name: "old", text: "SELECT count(*) AS n FROM people WHERE age >= $1 AND region = $2", values: [40, "it's west"] };
  const one = await client.query(asked);
  const two = await client.query(asked);
  console.log(one.rows[0].n === two.rows[0].n ? "prepared ok" : "changes");
  try {
    await client.query("SELECT count(*) FROM nobody");
  } catch (error) {
    console.log(error.code);
  }
  console.log(`notices ${first}`);
  const groupsCopied = await copied(client, "COPY (SELECT region, count(*) AS n FROM people GROUP BY region) TO STDOUT (FORMAT csv, HEADER)");
  console.log(`copied ${groupsCopied[0]} and ${groupsCopied.length - 1} rows`);
  console.log(`copied ${(await copied(client, "COPY people TO STDOUT")).length} rows`);
  await copied(client, "COPY nobody TO STDOUT").catch((error) => console.log(`refused copy ${error.code}`));
  console.log(`after it ${(await client.query("SELECT 1 AS one")).rows.length}`);
  await client.end();
}

main();
