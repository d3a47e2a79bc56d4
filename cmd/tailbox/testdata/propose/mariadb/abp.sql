-- ABP (abpframework/abp, IOutgoingEventInfo by Entity Framework)
CREATE TABLE AbpEventOutbox (Id char(36) NOT NULL, ExtraProperties longtext, EventName varchar(256) NOT NULL, EventData longblob NOT NULL, CreationTime datetime(6) NOT NULL, PRIMARY KEY (Id));
INSERT INTO AbpEventOutbox VALUES ('00000000-0000-0000-0000-000000000001', '{"X-Correlation-Id": "c1"}', 'MyApp.Product.StockChange', '{"NewCount": 1}', '2026-01-01 00:00:00');
