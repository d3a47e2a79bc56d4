-- enqueue/dbal (php-enqueue/enqueue-dev, DbalContext::createDataBaseTable)
CREATE TABLE enqueue (id char(36) NOT NULL, published_at bigint NOT NULL, body longtext, headers longtext, properties longtext, redelivered tinyint(1), queue varchar(255) NOT NULL,
  priority smallint, delayed_until bigint, time_to_live bigint, delivery_id char(36), redeliver_after bigint, PRIMARY KEY (id));
INSERT INTO enqueue (id, published_at, body, headers, properties, priority, queue) VALUES ('00000000-0000-0000-0000-000000000001', 17642000000000, '{"orderId": 1}', '{"message_id": "a"}', '{"__TypeId__": "OrderWasPlaced"}', 0, 'orders');
