// Package servers starts the real databases and brokers that tests and
// benchmarks need: on loopback, on free ports, in a temporary directory, each
// stopped by its own process id.
//
// A test asks for a server by name and gets a running one:
//
//	pg := servers.Shared(t, "17")        // one for the whole test binary
//	db := pg.NewDatabase(t)              // isolation is by database, slot and topic
//	conn, err := pgx.Connect(ctx, pg.URL(db))
//
//	own := servers.Postgres(t, "16")     // one that this test may kill, pause or restart
//
//	my := servers.SharedMySQL(t, "mariadb") // the same for "mysql" and "mariadb"
//	db := my.NewDatabase(t)
//
// [StartPostgres], [StartMySQL], [StartMongo], [StartKafka] and [StartNATS] do the same for programs that are no tests.
//
// The programs themselves are installed by "make servers" into [CacheDir].
// A server that cannot be had fails the test when CI=true; elsewhere it skips
// the test, says so on stderr, and [Main] counts the skips at the end.
// TAILBOX_TEST_POSTGRES_URL, TAILBOX_TEST_MYSQL_URL, TAILBOX_TEST_MARIADB_URL,
// TAILBOX_TEST_KAFKA_BROKERS, TAILBOX_TEST_MONGODB_URL and TAILBOX_TEST_NATS_URL put servers that already
// run in the place of the shared ones. TAILBOX_TEST_SERVERS_DIR is where servers keep their data, in place of the
// directory for temporary files; "make test" says /dev/shm where there is room.
//
// Nothing outlives the test binary: beside each server runs a guard that sees
// the binary's end, however it comes, stops the server and removes its
// directory. Servers are run on Linux only in CI; the guard and the signals to
// whole process trees read /proc.
package servers
