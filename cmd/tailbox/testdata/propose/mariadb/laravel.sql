-- A table as Laravel's migrations make it: an id of the database beside a UUID, times of whole seconds, and one error without a count.
CREATE TABLE outbox_events (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, uuid char(36) NOT NULL UNIQUE, aggregate_id varchar(36) NOT NULL,
  event_type varchar(255) NOT NULL, payload json NOT NULL, exception_details text, is_test tinyint(1) NOT NULL DEFAULT 0, publish_on date,
  published_at timestamp NULL, created_at timestamp NULL, updated_at timestamp NULL);
INSERT INTO outbox_events (uuid, aggregate_id, event_type, payload, published_at, created_at) VALUES
  ('00000000-0000-0000-0000-000000000003', 'o-1', 'placed', '{"n": 1}', '2026-01-01 00:00:01', '2026-01-01 00:00:00'),
  ('00000000-0000-0000-0000-000000000002', 'o-1', 'paid', '{"n": 2}', NULL, '2026-01-01 00:00:00'),
  ('00000000-0000-0000-0000-000000000001', 'o-1', 'shipped', '{"n": 3}', NULL, '2026-01-01 00:00:00');
