CREATE TABLE messages (tenant_id int NOT NULL, id bigint NOT NULL, topic text NOT NULL, key text NOT NULL, payload text NOT NULL, processed bigint NOT NULL DEFAULT 0, dedup_key text UNIQUE, PRIMARY KEY (tenant_id, id));
INSERT INTO messages SELECT 1, n, 'orders', 'k', '{}', n * 1000, NULL FROM generate_series(1, 30) n;
