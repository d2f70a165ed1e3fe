// What a JavaScript program does with node-postgres; the address is in the environment.
const { Client } = require("pg");

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
  await client.end();
}

main();
