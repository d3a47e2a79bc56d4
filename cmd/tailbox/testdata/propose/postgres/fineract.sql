CREATE TABLE m_external_event (id bigserial PRIMARY KEY, type varchar(100) NOT NULL, data bytea NOT NULL, created_at timestamp NOT NULL, status varchar(100) NOT NULL, sent_at timestamp, idempotency_key varchar(100) NOT NULL,
	business_date date NOT NULL, category varchar(100), schema varchar(200), aggregate_root_id bigint);
INSERT INTO m_external_event (type, data, created_at, status, idempotency_key, business_date) SELECT 'LoanCreated', 'x', now(), s, 'k', now() FROM unnest(ARRAY['TO_BE_SENT', 'SENT']) s;
