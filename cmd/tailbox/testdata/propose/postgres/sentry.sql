CREATE TABLE sentry_regionoutbox (id bigserial PRIMARY KEY, shard_scope int NOT NULL, shard_identifier bigint NOT NULL, category int NOT NULL, object_identifier bigint NOT NULL, payload jsonb, scheduled_from timestamptz NOT NULL,
	scheduled_for timestamptz NOT NULL, date_added timestamptz NOT NULL);
INSERT INTO sentry_regionoutbox (shard_scope, shard_identifier, category, object_identifier, payload, scheduled_from, scheduled_for, date_added) VALUES (0, 1, 3, 7, NULL, now(), now(), now()), (0, 1, 4, 7, '{}', now(), now(), now());
