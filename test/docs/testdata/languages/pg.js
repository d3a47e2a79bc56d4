const { Pool } = require("pg");

{{code}}

async function main() {
  const pool = new Pool();
  await payOrder(pool, 42);
  let refused = false;
  try {
    await payOrder(pool, 43);
  } catch {
    refused = true;
  }
  await pool.end();
  if (!refused) {
    throw new Error("the message that is refused was no error");
  }
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
