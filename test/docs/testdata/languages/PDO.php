<?php
{{code}}

$db = new PDO("pgsql:host=" . getenv("PGHOST") . ";port=" . getenv("PGPORT") . ";dbname=" . getenv("PGDATABASE"), getenv("PGUSER"), "", [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]);
payOrder($db, 42);
try {
    payOrder($db, 43);
} catch (PDOException $e) {
    exit(0);
}
fwrite(STDERR, "the message that is refused was no error\n");
exit(1);
