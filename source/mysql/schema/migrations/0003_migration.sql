-- The default of this column is the number of the last migration that was run.
-- unless column migration of tailbox_checkpoint
ALTER TABLE {checkpoint} ADD COLUMN migration INT NOT NULL DEFAULT 0;
