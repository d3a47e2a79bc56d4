CREATE TABLE email_outbox (id bigserial PRIMARY KEY, to_email text NOT NULL, subject text NOT NULL, body text NOT NULL, status varchar(20) NOT NULL DEFAULT 'PENDING', send_after timestamptz, sent_at timestamptz);
INSERT INTO email_outbox (to_email, subject, body, status) SELECT 'a@example.com', 'Your order 42', 'Hello', s FROM unnest(ARRAY['PENDING', 'SENT', 'FAILED']) s;
