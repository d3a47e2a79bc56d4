-- The columns of SlimMessageBus' outbox for PostgreSQL.
CREATE TABLE smb_outbox (
    id uuid NOT NULL PRIMARY KEY,
    timestamp timestamptz NOT NULL,
    bus_name varchar(64),
    message_type varchar(256),
    message_payload bytea NOT NULL,
    headers jsonb,
    path varchar(128),
    lock_instance_id varchar(128),
    lock_expires_on timestamptz NOT NULL,
    delivery_attempt int NOT NULL,
    delivery_complete boolean NOT NULL,
    delivery_aborted boolean NOT NULL DEFAULT false
);
INSERT INTO smb_outbox VALUES
    (gen_random_uuid(), now(), NULL, 'CustomerCreated', '{"id": 1}', '{"MessageType": "CustomerCreated"}', 'customers', NULL, '2000-01-01', 1, true, false),
    (gen_random_uuid(), now(), NULL, 'CustomerCreated', '{"id": 2}', '{"MessageType": "CustomerCreated"}', 'customers', NULL, '2000-01-01', 3, false, true),
    (gen_random_uuid(), now(), NULL, 'CustomerCreated', '{"id": 3}', '{"MessageType": "CustomerCreated"}', 'customers', NULL, '2000-01-01', 0, false, false);
