-- Columns, types and indexes as in: JasperFx/wolverine, Wolverine.Postgresql/Schema/OutgoingEnvelopeTable.cs; insert as in: Wolverine.RDBMS/DatabaseConstants.cs
-- Body as in: src/Wolverine/Runtime/Serialization/EnvelopeSerializer.cs. The SQL is ours, after the columns and a public script.
-- The two indexes are those of newer versions.
-- section: ddl
CREATE SCHEMA wolverine;
CREATE TABLE wolverine.wolverine_outgoing_envelopes (
	id uuid CONSTRAINT pkey_wolverine_outgoing_envelopes_id PRIMARY KEY, owner_id integer NOT NULL, destination varchar NOT NULL, deliver_by timestamptz,
	body bytea NOT NULL, attempts integer DEFAULT 0, message_type varchar NOT NULL
);
CREATE INDEX idx_wolverine_outgoing_envelopes_owner ON wolverine.wolverine_outgoing_envelopes (owner_id) WHERE owner_id <> 0;
CREATE INDEX idx_wolverine_outgoing_envelopes_recover ON wolverine.wolverine_outgoing_envelopes (destination) WHERE owner_id = 0;
-- section: good
INSERT INTO wolverine.wolverine_outgoing_envelopes (body, id, owner_id, destination, deliver_by, attempts, message_type)
	VALUES ('\x00e04d53e32cde480500000006736f75726365064f72646572730c6d6573736167652d74797065124f72646572732e4f72646572506c616365640c636f6e74656e742d74797065106170706c69636174696f6e2f6a736f6e0b64657374696e6174696f6e146b61666b613a2f2f746f7069632f6f72646572730269642437613165303030302d303030302d343030302d383030302d30303030303030303030303116000000'::bytea || convert_to('{"OrderId":"good-one"}', 'UTF8'),
		'7a1e0000-0000-4000-8000-000000000001', 1, 'kafka://topic/orders', NULL, 0, 'Orders.OrderPlaced');
-- section: refused
INSERT INTO wolverine.wolverine_outgoing_envelopes (body, id, owner_id, destination, deliver_by, attempts, message_type)
	VALUES ('\x00e04d53e32cde480500000006736f75726365064f72646572730c6d6573736167652d74797065124f72646572732e4f72646572506c616365640c636f6e74656e742d74797065106170706c69636174696f6e2f6a736f6e0b64657374696e6174696f6e146b61666b613a2f2f746f7069632f6f72646572730269642437613165303030302d303030302d343030302d383030302d30303030303030303030303217000000'::bytea || convert_to('{"OrderId":"refuse-me"}', 'UTF8'),
		'7a1e0000-0000-4000-8000-000000000002', 1, 'kafka://topic/orders', NULL, 0, 'Orders.OrderPlaced');
-- section: delivered
SELECT NOT EXISTS (SELECT FROM wolverine.wolverine_outgoing_envelopes WHERE id = '7a1e0000-0000-4000-8000-000000000001');
-- section: dead
SELECT NOT EXISTS (SELECT FROM wolverine.wolverine_outgoing_envelopes WHERE id = '7a1e0000-0000-4000-8000-000000000002') AND EXISTS (SELECT FROM tailbox_parked WHERE state = 'dead');
-- section: want
{"type": "Orders.OrderPlaced", "topic": "orders"}
