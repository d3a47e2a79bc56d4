CREATE TABLE events (id bigserial PRIMARY KEY, type text NOT NULL, metadata bytea, payload bytea NOT NULL, published_at timestamptz);
INSERT INTO events (type, metadata, payload) VALUES ('Placed', '{"trace_id": "é1"}', '\x0fff81030101'), ('Paid', NULL, '');
