-- Rows of random ids, and a time that the server sets at each change: nothing tells in which order they were written. A count of each aggregate might.
CREATE TABLE outbox (
  id CHAR(36) NOT NULL PRIMARY KEY,
  aggregate_type VARCHAR(64) NOT NULL,
  aggregate_id VARCHAR(64) NOT NULL,
  aggregate_version INT NOT NULL,
  type VARCHAR(64) NOT NULL,
  event_name VARCHAR(64) NOT NULL,
  content_type VARCHAR(64) NOT NULL,
  headers JSON NOT NULL,
  payload JSON NOT NULL,
  payload_before JSON,
  subscriber VARCHAR(64) NOT NULL,
  expires_at DATETIME NULL,
  processed_at DATETIME NULL,
  published_at DATETIME NULL,
  created_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6)
);
INSERT INTO outbox (id, aggregate_type, aggregate_id, aggregate_version, type, event_name, content_type, headers, payload, subscriber) VALUES
  ('e0000000-0000-4000-8000-000000000000', 'Order', 'o-1', 1, 'integration', 'OrderPlaced', 'invoice', '{"Trace-Id": ["t1"]}', '[{"n": 1}]', 'mail'),
  ('d0000000-0000-4000-8000-000000000000', 'Order', 'o-1', 2, 'integration', 'OrderPaid', 'invoice', '{"Trace-Id": ["t2"]}', '[{"n": 2}]', 'mail');
