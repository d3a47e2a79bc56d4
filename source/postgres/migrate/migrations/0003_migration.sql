-- The default of this column is the number of the last migration that was run.
ALTER TABLE {checkpoint} ADD COLUMN IF NOT EXISTS migration integer NOT NULL DEFAULT 0;
