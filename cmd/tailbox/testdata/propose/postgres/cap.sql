CREATE TABLE published ("Id" bigint PRIMARY KEY NOT NULL, "Version" varchar(20) NOT NULL, "Name" varchar(200) NOT NULL, "Content" text, "Retries" int NOT NULL, "Added" timestamp NOT NULL,
	"ExpiresAt" timestamp, "StatusName" varchar(50) NOT NULL);
INSERT INTO published SELECT n, 'v1', 'order.placed', '{"Headers": {"cap-msg-id": "1"}, "Value": {}}', 0, now(), NULL, CASE n % 3 WHEN 0 THEN 'Scheduled' WHEN 1 THEN 'Succeeded' ELSE 'Failed' END FROM generate_series(1, 9) n;
