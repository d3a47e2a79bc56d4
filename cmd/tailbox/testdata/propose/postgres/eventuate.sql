CREATE TABLE message (id varchar(767) PRIMARY KEY, destination varchar(1000) NOT NULL, headers varchar(1000) NOT NULL, payload text NOT NULL, published smallint DEFAULT 0, message_partition smallint, creation_time bigint);
INSERT INTO message VALUES ('a', 'Order', '{"event-type": "Placed"}', '{}', 0, NULL, 1700000000000);
