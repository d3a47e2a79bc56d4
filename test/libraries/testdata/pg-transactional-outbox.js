// Makes the library's table, and stores messages in transactions of their own. Arguments: setup, or the numbers of orders.
const {Client} = require("pg");
const {DatabaseSetup, getDisabledLogger, initializeMessageStorage} = require("pg-transactional-outbox");

async function main() {
    const client = new Client({connectionString: process.env.DATABASE_URL});
    await client.connect();
    if (process.argv[2] === "setup") {
        const config = {outboxOrInbox: "outbox", database: "", schema: "public", table: "outbox", listenerRole: "", nextMessagesName: "next_outbox_messages"};
        await client.query(DatabaseSetup.dropAndCreateTable(config));
        await client.query(DatabaseSetup.setupPollingIndexes(config));
    } else {
        const store = initializeMessageStorage({outboxOrInbox: "outbox", settings: {dbSchema: "public", dbTable: "outbox"}}, getDisabledLogger());
        for (const order of process.argv.slice(2)) {
            await client.query("BEGIN");
            await store({id: crypto.randomUUID(), aggregateType: "order", aggregateId: order, messageType: "order_paid", segment: "order-" + order,
                payload: {order: Number(order)}, metadata: {routingKey: "order.paid"}}, client);
            await client.query("COMMIT");
        }
    }
    await client.end();
}

main().catch((error) => {
    console.error(error);
    process.exit(1);
});
