-- as in navikt/common-java-modules: headers are a list, and their values are in base64
CREATE TABLE kafka_producer_record (
	id bigserial PRIMARY KEY,
	topic varchar(100) NOT NULL,
	key bytea,
	value bytea,
	headers_json text,
	created_at timestamp NOT NULL DEFAULT current_timestamp
);
INSERT INTO kafka_producer_record (topic, key, value, headers_json) VALUES ('orders', 'k1', '{"a": 1}', '[{"key": "trace", "value": "Nw=="}]')
