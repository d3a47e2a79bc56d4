-- Columns, types and indexes as in: Zehelein/pg-transactional-outbox, examples/setup/out/example-trx-polling.sql; insert as in: lib/src/message/initialize-message-storage.ts
-- Without roles, grants, the inbox, and the function next_outbox_messages, which only the library's listener calls.
-- section: ddl
CREATE TABLE public.outbox (
	id uuid PRIMARY KEY, aggregate_type text NOT NULL, aggregate_id text NOT NULL, message_type text NOT NULL, segment text,
	concurrency text NOT NULL DEFAULT 'sequential' CONSTRAINT outbox_concurrency_check CHECK (concurrency IN ('sequential', 'parallel')),
	payload jsonb NOT NULL, metadata jsonb, locked_until timestamptz NOT NULL DEFAULT to_timestamp(0),
	created_at timestamptz NOT NULL DEFAULT clock_timestamp(), processed_at timestamptz, abandoned_at timestamptz,
	started_attempts smallint NOT NULL DEFAULT 0, finished_attempts smallint NOT NULL DEFAULT 0
);
CREATE INDEX outbox_segment_idx ON public.outbox (segment);
CREATE INDEX outbox_created_at_idx ON public.outbox (created_at);
CREATE INDEX outbox_processed_at_idx ON public.outbox (processed_at);
CREATE INDEX outbox_abandoned_at_idx ON public.outbox (abandoned_at);
CREATE INDEX outbox_locked_until_idx ON public.outbox (locked_until);
-- section: history
INSERT INTO public.outbox (id, aggregate_type, aggregate_id, message_type, segment, payload, metadata, created_at, processed_at, abandoned_at, finished_attempts) VALUES
	('3d1a7c52-0000-4000-8000-000000000008', 'movie', '40', 'movie_created', 'movie-40', '{"id": 40, "title": "sent before"}', '{}', '2025-11-25T10:00:00.000Z', '2025-11-25T10:00:01.000Z', NULL, 1),
	('3d1a7c52-0000-4000-8000-000000000009', 'movie', '41', 'movie_created', 'movie-41', '{"id": 41, "title": "given up"}', '{}', '2025-11-25T10:00:00.000Z', NULL, '2025-11-25T10:00:09.000Z', 5);
-- section: good
INSERT INTO public.outbox (id, aggregate_type, aggregate_id, message_type, segment, payload, metadata, created_at)
	VALUES ('3d1a7c52-0000-4000-8000-000000000001', 'movie', '42', 'movie_created', 'movie-42', '{"id": 42, "title": "good-one"}', '{"exchange": "movies", "routingKey": "movie.created"}', '2025-11-26T10:00:00.000Z')
	ON CONFLICT (id) DO NOTHING;
-- section: refused
INSERT INTO public.outbox (id, aggregate_type, aggregate_id, message_type, segment, payload, metadata, created_at)
	VALUES ('3d1a7c52-0000-4000-8000-000000000002', 'movie', '43', 'movie_created', 'movie-43', '{"id": 43, "title": "refuse-me"}', '{"exchange": "movies", "routingKey": "movie.created"}', '2025-11-26T10:00:01.000Z')
	ON CONFLICT (id) DO NOTHING;
-- section: delivered
SELECT EXISTS (SELECT FROM public.outbox WHERE id = '3d1a7c52-0000-4000-8000-000000000001' AND processed_at IS NOT NULL AND abandoned_at IS NULL AND finished_attempts > 0);
-- section: dead
SELECT EXISTS (SELECT FROM public.outbox WHERE id = '3d1a7c52-0000-4000-8000-000000000002' AND processed_at IS NULL AND abandoned_at IS NOT NULL AND finished_attempts > 0);
-- section: want
{"type": "movie_created", "topic": "movie", "group": "movie-42", "key": "42"}
