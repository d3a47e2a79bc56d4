CREATE TABLE celery_outbox (id bigserial PRIMARY KEY, task_id varchar(255) NOT NULL, task_name varchar(255) NOT NULL, args jsonb NOT NULL, kwargs jsonb NOT NULL, options jsonb NOT NULL, created_at timestamptz NOT NULL, updated_at timestamptz,
	retry_after timestamptz, retries int NOT NULL);
INSERT INTO celery_outbox (task_id, task_name, args, kwargs, options, created_at, retries) VALUES ('a', 'mail', '[100]', '{"to": 1}', '{}', now(), 0);
