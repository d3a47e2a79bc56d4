CREATE TABLE published (id uuid PRIMARY KEY, body jsonb NOT NULL, headers jsonb NOT NULL, destination varchar(255) NOT NULL, version varchar(10) NOT NULL, added timestamptz NOT NULL, expires_at timestamptz NOT NULL,
	status smallint NOT NULL, retry int NOT NULL);
INSERT INTO published SELECT gen_random_uuid(), '{}', '{}', 'orders', 'v1', now(), now(), s, 0 FROM unnest(ARRAY[1, 2, -1]) s;
