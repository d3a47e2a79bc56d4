CREATE TABLE sentry_regionoutbox (id bigserial PRIMARY KEY, shard_scope int NOT NULL, shard_identifier bigint NOT NULL, category int NOT NULL, object_identifier bigint NOT NULL, payload jsonb, scheduled_from timestamptz NOT NULL,
	scheduled_for timestamptz NOT NULL, date_added timestamptz NOT NULL);
