CREATE TABLE outbox (id uuid NOT NULL, event_type text NOT NULL, subject text NOT NULL, aggregate_id text NOT NULL, payload bytea NOT NULL, is_sent char(1) NOT NULL DEFAULT 'N', created_at timestamptz(0) NOT NULL DEFAULT now(),
	day date NOT NULL, PRIMARY KEY (id, day));
CREATE TABLE all_messages (id uuid NOT NULL, event_type text NOT NULL, subject text NOT NULL, aggregate_id text NOT NULL, payload bytea NOT NULL, is_sent char(1) NOT NULL DEFAULT 'N', created_at timestamptz(0) NOT NULL DEFAULT now(),
	day date NOT NULL, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
ALTER TABLE all_messages ATTACH PARTITION outbox FOR VALUES FROM ('2026-01-01') TO ('2027-01-01');
INSERT INTO outbox (id, event_type, subject, aggregate_id, payload, is_sent, created_at, day) VALUES
	('e0000000-0000-4000-8000-000000000000', 'Placed', 'Thanks', '1', 'eyJvcmRlcklkIjogMX0=', 'N', '2026-05-01', '2026-05-01'), ('d0000000-0000-4000-8000-000000000000', 'Paid', 'Thanks', '1', 'eyJvcmRlcklkIjogMX0=', 'E', '2026-05-01', '2026-05-01');
