package setup

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/catalog"
	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/mysql/session"
	"github.com/tailbox/tailbox/source/mysql/usertable"
	"github.com/tailbox/tailbox/source/prepare"
	"github.com/tailbox/tailbox/source/store"
	"github.com/tailbox/tailbox/source/store/check"
)

// refusals looks for what would refuse that the relay deletes or marks rows, and so stop it later: keys that refer to them, triggers,
// constraints and indexes. It knows as much of them as the account may see.
func (c *checker) refusals(ctx context.Context, t *catalog.Table) error {
	resolved, err := usertable.Resolve(ctx, session.On(c.cfg, c.conn), t.Table)
	switch {
	case errors.Is(err, source.ErrStop):
		if u := (*store.UnsupportedError)(nil); errors.As(err, &u) {
			c.Add(check.Problem, u.Fix, "%s", u.What)
		}
		return nil // all else is found already
	case err != nil || resolved == nil:
		return err
	}
	deletes := prepare.Deletes(&t.Table)
	if deletes {
		if err := c.references(ctx, t); err != nil {
			return err
		}
	}
	samples := resolved.View.Samples(time.Now())
	if err := c.triggers(ctx, t, deletes, len(samples) > 0); err != nil || len(samples) == 0 {
		return err
	}
	return c.marks(ctx, t, resolved, samples)
}

// references finds foreign keys by which a row that is referred to cannot be deleted. What they do on a deletion is known of fewer
// tables than that they are there (MariaDB).
func (c *checker) references(ctx context.Context, t *catalog.Table) error {
	rows, err := c.conn.Texts(ctx, "SELECT k.table_schema, k.table_name, k.constraint_name, COALESCE(r.delete_rule, '') FROM information_schema.key_column_usage k "+
		"LEFT JOIN information_schema.referential_constraints r ON r.constraint_schema = k.table_schema AND r.table_name = k.table_name AND r.constraint_name = k.constraint_name "+
		"WHERE k.referenced_table_schema = "+quote.Text(t.Schema)+" AND k.referenced_table_name = "+quote.Text(t.Name)+" AND k.ordinal_position = 1 ORDER BY 1, 2, 3")
	if err != nil {
		return err
	}
	for _, r := range rows {
		fix := "ALTER TABLE " + quote.Ident(r[0]) + "." + quote.Ident(r[1]) + " DROP FOREIGN KEY " + quote.Ident(r[2]) + ", or give it ON DELETE CASCADE"
		switch r[3] {
		case "CASCADE", "SET NULL":
		case "":
			c.Add(check.Warning, fix, "rows of table %s.%s refer to table %s by the FOREIGN KEY %s, and this account cannot see its ON DELETE rule: if that is not "+
				"CASCADE or SET NULL, tailbox cannot delete a row that is referred to", r[0], r[1], t, r[2])
		default:
			c.Add(check.Problem, fix, "rows of table %s.%s refer to table %s by the FOREIGN KEY %s: a row that is referred to cannot be deleted", r[0], r[1], t, r[2])
		}
	}
	return nil
}

// triggers names those that are called for what the relay does.
func (c *checker) triggers(ctx context.Context, t *catalog.Table, deletes, updates bool) error {
	rows, err := c.conn.Texts(ctx, "SELECT trigger_name, action_timing, event_manipulation FROM information_schema.triggers WHERE event_object_schema = "+
		quote.Text(t.Schema)+" AND event_object_table = "+quote.Text(t.Name)+" ORDER BY 1")
	if err != nil {
		return err
	}
	for _, r := range rows {
		if r[2] == "DELETE" && deletes || r[2] == "UPDATE" && updates {
			c.Add(check.Warning, "let it take what the relay does, or drop it", "table %s has the trigger %s, %s %s: if it refuses what on_delivered does to eight rows in a row, tailbox stops",
				t, r[0], r[1], r[2])
		}
	}
	return nil
}

// marks finds CHECK constraints and unique indexes that refuse a mark. It lets the server judge the row that a mark would leave, of
// which the columns that marks do not write are NULL.
func (c *checker) marks(ctx context.Context, t *catalog.Table, at *usertable.Table, samples []store.Sample) error {
	writes := map[string]bool{} // in small letters, quoted
	for i := range samples {
		for _, s := range at.Sets(&samples[i].Change) {
			writes[strings.ToLower(s.Column)] = true
		}
	}
	for i := range t.Cols {
		if name := t.Cols[i].Name; t.Cols[i].Generated && writes[strings.ToLower(quote.Ident(name))] {
			c.Add(check.Problem, "name a column under source.tables.columns that can be written, or null", "column %s of table %s is generated, so the relay cannot write it", name, t)
		}
	}
	checks, err := c.checks(ctx, at)
	if err != nil {
		return err
	}
	for _, check := range checks {
		k := prepare.Constraint{Name: check[0], Condition: check[1]}
		for i := range t.Cols {
			col := &t.Cols[i]
			name := strings.ToLower(quote.Ident(col.Name))
			switch {
			case !strings.Contains(strings.ToLower(k.Condition), name):
			case writes[name]:
				k.Columns = append(k.Columns, col.Name)
				k.Unsure = k.Unsure || col.Labels != nil // it may be about the label's number, which a text has not
			default:
				k.Unsure = true
			}
		}
		if len(k.Columns) == 0 {
			continue
		}
		err := c.Constraint(&t.Table, samples, &k, func(s *store.Sample) (takes bool, refusal string, err error) {
			value, err := c.afterMark(ctx, t, at, s, k.Condition)
			if e := server.Answer(err); e != nil {
				return false, e.Message, nil
			}
			return value != "0", "", err
		})
		if err != nil {
			return err
		}
	}
	return c.uniqueMarks(ctx, t, at, samples, writes)
}

// afterMark is the value of a condition about the row that a mark leaves. Nothing is read or written.
func (c *checker) afterMark(ctx context.Context, t *catalog.Table, at *usertable.Table, sample *store.Sample, condition string) (string, error) {
	to := map[string]quote.Raw{}
	for _, s := range at.Sets(&sample.Change) {
		to[strings.ToLower(s.Column)] = s.To
	}
	var names, before, after []string
	for i := range t.Cols {
		name := quote.Ident(t.Cols[i].Name)
		value, set := to[strings.ToLower(name)]
		if !set {
			value = "NULL"
		}
		names, before, after = append(names, name), append(before, "NULL AS "+name), append(after, string(value))
	}
	// The empty half gives the values the types and collations of the columns.
	rows, err := c.conn.Texts(ctx, "SELECT "+condition+" FROM (SELECT "+strings.Join(names, ", ")+" FROM "+at.SQL+" WHERE FALSE UNION ALL SELECT "+
		strings.Join(after, ", ")+" FROM (SELECT "+strings.Join(before, ", ")+") t) marked")
	if err != nil || len(rows) == 0 {
		return "", err
	}
	return rows[0][0], nil
}

// checks lists the names and conditions of a table's CHECK constraints. information_schema hides them in MariaDB from who may not alter the
// table; what shows the whole table does not, in which each has a line of its own, or, in MariaDB, the end of its column's.
func (c *checker) checks(ctx context.Context, at *usertable.Table) (list [][2]string, err error) {
	if _, err := c.conn.Exec(ctx, "SET sql_quote_show_create = 1"); err != nil {
		return nil, err
	}
	rows, err := c.conn.Texts(ctx, "SHOW CREATE TABLE "+at.SQL)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	for line := range strings.SplitSeq(rows[0][1], "\n") {
		line = strings.TrimPrefix(strings.TrimSuffix(strings.TrimSpace(line), ","), "CONSTRAINT ")
		i := strings.LastIndex(line, " CHECK (")
		if i < 0 || line[0] != '`' || line[len(line)-1] != ')' {
			continue // or it is not enforced
		}
		name, _, _ := strings.Cut(line[1:], "`")
		list = append(list, [2]string{name, line[i+len(" CHECK "):]})
	}
	return list, nil
}

// uniqueMarks finds unique indexes on nothing but columns that marks write: rows that are marked at once have the same there.
func (c *checker) uniqueMarks(ctx context.Context, t *catalog.Table, at *usertable.Table, samples []store.Sample, writes map[string]bool) error {
	rows, err := c.conn.Texts(ctx, "SELECT index_name, column_name FROM information_schema.statistics WHERE table_schema = "+quote.Text(t.Schema)+
		" AND table_name = "+quote.Text(t.Name)+" AND non_unique = 0 ORDER BY index_name, seq_in_index")
	if err != nil {
		return err
	}
	for len(rows) > 0 {
		name := rows[0][0]
		var columns, present []string
		alone := true
		for ; len(rows) > 0 && rows[0][0] == name; rows = rows[1:] {
			column := quote.Ident(rows[0][1]) // an expression has no name
			alone = alone && writes[strings.ToLower(column)]
			columns, present = append(columns, rows[0][1]), append(present, column+" IS NOT NULL")
		}
		if !alone {
			continue
		}
		drop := "ALTER TABLE " + at.SQL + " DROP INDEX " + quote.Ident(name)
		err := c.UniqueIndex(&t.Table, samples, name, drop, columns, func(s *store.Sample) (bool, error) {
			value, err := c.afterMark(ctx, t, at, s, strings.Join(present, " AND "))
			return value == "1", err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
