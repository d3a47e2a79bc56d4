CREATE TABLE event_log (id text PRIMARY KEY DEFAULT gen_random_uuid(), schema_name text NOT NULL, table_name text NOT NULL, trigger_name text NOT NULL, payload jsonb NOT NULL, delivered boolean NOT NULL DEFAULT false,
	error boolean NOT NULL DEFAULT false, tries integer NOT NULL DEFAULT 0, created_at timestamp DEFAULT now(), locked timestamptz, next_retry_at timestamp, archived boolean NOT NULL DEFAULT false);
INSERT INTO event_log (id, schema_name, table_name, trigger_name, payload, delivered, error, archived) VALUES ('a', 'public', 'orders', 'placed', '{}', true, false, false), ('b', 'public', 'orders', 'placed', '{}', false, true, false),
	('c', 'public', 'orders', 'placed', '{}', false, false, true), ('d', 'public', 'orders', 'placed', '{}', false, false, false);
