package setup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/columns"
	"github.com/tailbox/tailbox/source/mysql/catalog"
	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/mysql/schema"
	"github.com/tailbox/tailbox/source/mysql/usertable"
	"github.com/tailbox/tailbox/source/prepare"
	"github.com/tailbox/tailbox/source/store/check"
)

// outboxTables looks at the tables that applications write to.
func (c *checker) outboxTables(ctx context.Context) error {
	for i := range c.cfg.Tables {
		t := &c.cfg.Tables[i]
		info, err := catalog.Describe(ctx, c.conn, t)
		switch {
		case errors.Is(err, source.ErrStop):
			// The server hides what the account may not see, but for this.
			if lacks, err := c.tryWrites(ctx, quote.Table(t), []string{t.Columns.ID}, tablePrivileges(t)); err != nil {
				return err
			} else if lacks > 0 {
				continue
			}
			if !errors.Is(err, source.ErrNoTable) {
				c.Add(check.Problem, "correct source.tables", "%v", err)
				continue
			}
			beside, err := tablesBeside(ctx, c.conn, t)
			if err != nil {
				return err
			}
			c.Absent(t, "table "+quote.Table(t), schema.OwnShape(t.Shape), beside, c.cfg.Tables)
			continue
		case err != nil:
			return err
		}
		c.tables = append(c.tables, info)
		if err := c.oneTable(ctx, info); err != nil {
			return fmt.Errorf("table %s: %w", info, err)
		}
	}
	return nil
}

func (c *checker) oneTable(ctx context.Context, t *catalog.Table) error {
	name := quote.Table(&t.Table)
	if !strings.EqualFold(t.Engine, "InnoDB") && !strings.EqualFold(t.Engine, "RocksDB") {
		c.Add(check.Problem, "ALTER TABLE "+name+" ENGINE = InnoDB", "table %s has the engine %s, whose rows are no part of transactions", t, t.Engine)
	}
	c.columns(t)
	c.unswept(t)
	var marks []string
	for _, name := range prepare.MarkColumns(&t.Table) {
		if _, ok := t.Column(name); ok {
			marks = append(marks, name)
		}
	}
	if len(marks) == 0 {
		marks = []string{t.Columns.ID}
	}
	lacks, err := c.tryWrites(ctx, name, marks, tablePrivileges(&t.Table))
	if err != nil || lacks > 0 {
		return err // what follows would fail for want of them
	}
	if err := c.statuses(ctx, t); err != nil {
		return err
	}
	if err := c.indexes(ctx, t); err != nil {
		return err
	}
	if err := c.refusals(ctx, t); err != nil {
		return err
	}
	return c.feedback(ctx, t)
}

// columns looks for columns that messages are made of, or that are written.
func (c *checker) columns(t *catalog.Table) {
	cols := make([]catalog.Column, len(t.Cols))
	for i := range t.Cols {
		cols[i] = t.Cols[i].Column
	}
	if _, err := catalog.NewPlan(&t.Table, cols); err != nil {
		c.Add(check.Problem, "add the column, or correct columns under source.tables", "%v", err)
	}
	if err := t.Unfound(); err != nil {
		c.Add(check.Problem, "correct columns under source.tables", "%v", err)
	}
	for _, col := range t.Cols {
		if t.Wants(col.Name) && col.Kind == catalog.KindOther {
			fix := "convert it, or correct columns under source.tables"
			if key := columns.Dispensable(&t.Table, col.Name); key != "" {
				fix = "leave it out (columns: {" + key + ": null}), or convert it"
			}
			c.Add(check.Problem, fix, "column %s of table %s: %s", col.Name, t, col.Why)
		}
	}
	c.words(t)
	has := func(name string) bool { _, ok := t.Column(name); return ok }
	c.Markable(&t.Table, has)
	if col, ok := t.Column(t.Columns.Receipt); t.Columns.Receipt != "" && (!ok || col.Kind != catalog.KindText) {
		c.Add(check.Problem, "ALTER TABLE "+quote.Table(&t.Table)+" ADD COLUMN "+quote.Ident(t.Columns.Receipt)+" TEXT, or correct source.tables.columns",
			"table %s has no column %s of type TEXT for receipts", t, t.Columns.Receipt)
	}
	c.Retained(&t.Table, has, "TIMESTAMP(6)")
	if id, ok := t.Column(t.Columns.ID); ok && !slices.Contains([]catalog.Kind{catalog.KindText, catalog.KindLatin1, catalog.KindUUID, catalog.KindInt, catalog.KindBytes}, id.Kind) {
		level := check.Warning
		if t.OnDelivered != outbox.Keep && !usertable.CanBeID(id.DataType) {
			level = check.Problem
		}
		c.Add(level, "use text, BINARY(16) or a whole number", "column %s of table %s, the id, is a %s", id.Name, t, id.ColumnType)
	}
	for _, name := range []string{t.Columns.UpdatedAt, t.Columns.LastAttemptAt, t.Columns.NextAttemptAt, t.Columns.DeliveredAt} {
		if col, ok := t.Column(name); ok && name != "" && col.Kind != catalog.KindDatetime && col.Kind != catalog.KindTimestamp && col.Kind != catalog.KindOther {
			c.Add(check.Problem, "leave it out (columns: {"+columns.Dispensable(&t.Table, name)+": null}), or make it a TIMESTAMP(6)",
				"column %s of table %s is of type %s, not a time", col.Name, t, col.ColumnType)
		}
	}
	if col, ok := t.Column(t.Columns.CreatedAt); ok && col.Touched && !has(t.Columns.Seq) {
		c.Add(check.Warning, "take ON UPDATE away from the column, name a column under columns.seq, or write columns.created_at: null",
			"column %s of table %s changes whenever the row does, so a sweep would deliver a row that was tried after newer ones", col.Name, t)
	}
	for _, name := range []string{t.Columns.AvailableAt, t.Columns.CreatedAt} {
		if col, ok := t.Column(name); ok && col.Kind == catalog.KindDatetime {
			c.Add(check.Info, "write UTC, or make it a TIMESTAMP(6) with the NOT NULL and the default that it has",
				"column %s of table %s is a DATETIME, which has no time zone: it is read as UTC", col.Name, t)
		}
	}
}

// unswept tells of a table whose rows could not be found again after the position in the log was lost.
func (c *checker) unswept(t *catalog.Table) {
	if !c.cfg.Poll {
		c.Note(check.Unswept(&t.Table, t.PendingCondition("t") != ""))
	}
}

// statuses looks for rows that are neither delivered nor pending.
func (c *checker) statuses(ctx context.Context, t *catalog.Table) error {
	if _, ok := t.Column(t.Columns.Status); !ok {
		return nil
	}
	return c.Statuses(ctx, &t.Table, c.started, func(ctx context.Context) (counts []check.StatusCount, err error) {
		rows, err := c.conn.Texts(ctx, fmt.Sprintf("SELECT word, COUNT(*) FROM (SELECT CAST(%[1]s AS CHAR) AS word FROM %[2]s t WHERE %[1]s <> %[3]s%[4]s LIMIT %[5]d) n GROUP BY word",
			"t."+quote.Ident(t.Columns.Status), quote.Table(&t.Table), quote.Text(t.Words.Delivered), catalog.Ours(&t.Table, "t"), check.Limit))
		for _, r := range rows {
			n, err := strconv.Atoi(r[1])
			if err != nil {
				return nil, err
			}
			counts = append(counts, check.StatusCount{Word: r[0], Rows: n})
		}
		return counts, err
	}, func(ctx context.Context) (bool, error) {
		rows, err := c.conn.Texts(ctx, "SELECT 1 FROM "+schema.NamesIn(c.cfg.Schema).Parked+" WHERE pipeline = "+quote.Text(c.cfg.Pipeline)+
			" AND source_table = "+quote.Text(t.String())+" LIMIT 1")
		return len(rows) > 0, err
	})
}

// words looks whether the status column can hold the words.
func (c *checker) words(t *catalog.Table) {
	says, ok := t.Column(t.Columns.Status)
	if !ok {
		return
	}
	c.Words(&t.Table, catalog.WordFaults(&t.Table, says.DataType, says.ColumnType, says.Length))
}

// indexes looks for the one that every settlement goes by.
func (c *checker) indexes(ctx context.Context, t *catalog.Table) error {
	rows, err := c.conn.Texts(ctx, "SELECT MIN(IF("+catalog.HiddenIndex(c.conn.Server)+", NULL, non_unique)), MIN(IF("+catalog.HiddenIndex(c.conn.Server)+
		", index_name, NULL)) FROM information_schema.statistics s WHERE table_schema = "+quote.Text(t.Schema)+
		" AND table_name = "+quote.Text(t.Name)+" AND seq_in_index = 1 AND column_name = "+quote.Text(t.Columns.ID))
	if err != nil {
		return err
	}
	id := quote.Ident(t.Columns.ID)
	// Every unique key of a partitioned table has the columns that it is partitioned by.
	unique, err := c.conn.Texts(ctx, "SELECT COUNT(*), (SELECT COUNT(*) FROM information_schema.partitions p WHERE p.table_schema = "+quote.Text(t.Schema)+
		" AND p.table_name = "+quote.Text(t.Name)+" AND p.partition_name IS NOT NULL) FROM (SELECT MAX(column_name) AS alone FROM information_schema.statistics WHERE table_schema = "+
		quote.Text(t.Schema)+" AND table_name = "+quote.Text(t.Name)+" AND non_unique = 0 GROUP BY index_name HAVING COUNT(*) = 1) u WHERE alone = "+quote.Text(t.Columns.ID))
	if err != nil {
		return err
	}
	switch {
	case rows[0][0] == "" && rows[0][1] != "":
		c.Add(check.Problem, catalog.ShowIndex(c.conn.Server, quote.Table(&t.Table), quote.Ident(rows[0][1])), "table %s has no index that begins with %s but %s, which is hidden from queries",
			t, t.Columns.ID, rows[0][1])
	case rows[0][0] == "":
		c.Add(check.Problem, "ALTER TABLE "+quote.Table(&t.Table)+" ADD UNIQUE KEY ("+id+")", "table %s has no index that begins with %s: settling a message would lock all rows",
			t, t.Columns.ID)
	case rows[0][0] != "0" || unique[0][0] == "0" && unique[0][1] == "0":
		c.Add(check.Warning, check.MakeUnique("ALTER TABLE "+quote.Table(&t.Table)+" ADD UNIQUE KEY ("+id+")"), "column %s of table %s is not unique: rows with the same id are one message", t.Columns.ID, t)
	}
	if unique[0][0] == "0" {
		shared, err := c.conn.Texts(ctx, fmt.Sprintf("SELECT 1 FROM (SELECT CAST(%[1]s AS BINARY) AS id FROM %[2]s WHERE %[1]s IS NOT NULL LIMIT %[3]d) r GROUP BY id HAVING COUNT(*) > 1 LIMIT 1",
			id, quote.Table(&t.Table), check.SharedLimit))
		if err == nil && len(shared) > 0 { // a right that lacks is told elsewhere
			c.Note(check.SharedIDs(&t.Table))
		}
	}
	return nil
}
