-- attempts are the failures that count against the message, tries all of them, tried_at the time of the last one. failed_epoch and
-- failed_call are what the relay notes about that: a term of its own, and the call to the sink.
-- unless column tries of tailbox_parked
ALTER TABLE {parked} ADD COLUMN tries INT NOT NULL DEFAULT 0, ADD COLUMN failed_epoch BIGINT NOT NULL DEFAULT 0,
	ADD COLUMN failed_call BIGINT NOT NULL DEFAULT 0, ADD COLUMN tried_at DATETIME(6);

UPDATE {parked} SET tries = attempts, tried_at = changed_at WHERE tries < attempts;

-- It leads to the deliveries that a probe takes first, however many others are due.
-- unless index tailbox_parked_untried of tailbox_parked
ALTER TABLE {parked} ADD KEY tailbox_parked_untried (pipeline, sink, tries, next_attempt_at);
