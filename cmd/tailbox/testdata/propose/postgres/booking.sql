-- as in meysamhadeli/booking-microservices: messages to send, messages that came in, and commands of the program itself
CREATE TABLE persist_message (
	id uuid PRIMARY KEY,
	data_type text NOT NULL,
	data text NOT NULL,
	created timestamptz NOT NULL,
	retry_count int NOT NULL,
	message_status varchar(50) NOT NULL DEFAULT 'InProgress',
	delivery_type varchar(50) NOT NULL DEFAULT 'Outbox',
	version bigint NOT NULL
);
INSERT INTO persist_message VALUES
	('5c1b0f7e-5f0c-4f0a-8e5a-000000000001', 'Flight.Created', '{"Message": {"Id": 1}}', now(), 0, 'Processed', 'Outbox', 1),
	('5c1b0f7e-5f0c-4f0a-8e5a-000000000002', 'Flight.Created', '{"Message": {"Id": 2}}', now(), 0, 'InProgress', 'Outbox', 0),
	('5c1b0f7e-5f0c-4f0a-8e5a-000000000003', 'Seat.Reserved', '{"Message": {"Id": 3}}', now(), 0, 'InProgress', 'Inbox', 0),
	('5c1b0f7e-5f0c-4f0a-8e5a-000000000004', 'Mongo.Update', '{"Message": {"Id": 4}}', now(), 0, 'InProgress', 'Internal', 0)
