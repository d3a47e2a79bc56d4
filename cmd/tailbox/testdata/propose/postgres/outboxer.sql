CREATE TABLE outboxer_messages (id bigserial PRIMARY KEY, status varchar(255) NOT NULL, messageable_id varchar(255) NOT NULL, messageable_type varchar(255) NOT NULL, queued_at timestamptz NOT NULL, buffered_at timestamptz,
	publishing_at timestamptz, updated_at timestamptz NOT NULL, publisher_id bigint, publisher_name varchar(263));
