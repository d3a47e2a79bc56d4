CREATE TABLE outbox (id bigserial PRIMARY KEY, correlationid varchar(16), messageid varchar(255), sourcequeue varchar(255), destinationaddress varchar(255) NOT NULL, headers text, body bytea, sent boolean NOT NULL DEFAULT false);
INSERT INTO outbox (messageid, destinationaddress, headers, body) VALUES ('m', 'orders', '{"rbs2-msg-type": "Placed"}', '{}');
