-- Columns that the server computes: nobody can write them. The binlog holds them, so that messages can be made of them.
CREATE TABLE outbox (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  payload LONGTEXT NOT NULL,
  aggregate_id VARCHAR(64) GENERATED ALWAYS AS (JSON_UNQUOTE(JSON_EXTRACT(payload, '$.order'))) STORED,
  event_type VARCHAR(64) GENERATED ALWAYS AS (JSON_UNQUOTE(JSON_EXTRACT(payload, '$.type'))) STORED,
  errors JSON,
  attempts INT GENERATED ALWAYS AS (COALESCE(JSON_LENGTH(errors), 0)) VIRTUAL,
  processed_at DATETIME(6) NULL,
  failed_at DATETIME(6) GENERATED ALWAYS AS (IF(JSON_LENGTH(errors) > 9, processed_at, NULL)) VIRTUAL,
  status VARCHAR(16) GENERATED ALWAYS AS (IF(processed_at IS NULL, 'pending', 'done')) VIRTUAL,
  created_at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)
);
INSERT INTO outbox (payload, processed_at) VALUES ('{"order": "o-1", "type": "placed"}', NULL), ('{"order": "o-2", "type": "placed"}', NOW(6)), ('{"order": "o-1", "type": "paid"}', NULL);
