CREATE TABLE event_publication (id uuid PRIMARY KEY, listener_id text NOT NULL, event_type text NOT NULL, serialized_event text NOT NULL, publication_date timestamptz NOT NULL, completion_date timestamptz,
	status text, completion_attempts int, last_resubmission_date timestamptz);
INSERT INTO event_publication SELECT gen_random_uuid(), 'com.example.Mail.on', 'com.example.OrderPlaced', '{}', now(), NULL, s, 1, NULL FROM unnest(ARRAY['PUBLISHED', 'PROCESSING', 'COMPLETED', 'FAILED']) s;
