package usertable

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/mysql/catalog"
	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/store"
)

// receiptExpr adds a line to the receipts that a row has, cut to what the column holds.
func (t *Table) receiptExpr(line string) quote.Raw {
	c := t.Column(t.Columns.Receipt)
	col := "t." + quote.Ident(t.Columns.Receipt)
	if line == "" {
		return quote.Raw(col)
	}
	text := string(quote.Append(nil, c.fit(line)))
	if v, ok := c.fit(line).(quote.Raw); ok {
		text = string(v)
	}
	all := "IF(COALESCE(" + col + ", '') = '', " + text + ", CONCAT(" + col + ", '\n', " + text + "))"
	if c.length > 0 && !strings.HasSuffix(c.typ, "longtext") {
		return quote.Raw(fmt.Sprintf("LEFT(%s, %d)", all, c.charsThatFit()))
	}
	return quote.Raw(all)
}

// charsThatFit is how many characters fit for certain: a text's length is in bytes, that of CHAR and VARCHAR in characters.
func (c *Column) charsThatFit() int {
	if strings.HasSuffix(c.typ, "text") {
		return c.length / 4
	}
	return c.length
}

// Assignments are a change of a row t as a statement has it.
func (t *Table) Assignments(r *store.RowChange) quote.Raw {
	set := t.Sets(r)
	if len(set) == 0 { // delivered_at alone, of a message that is not delivered
		return quote.Raw("t." + t.ID.Column + " = t." + t.ID.Column)
	}
	var b []byte
	for i, s := range set {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = append(append(append(append(b, "t."...), s.Column...), " = "...), s.To...)
	}
	return quote.Raw(b)
}

// An Assignment is what a column is set to: its quoted name, and SQL that may look at the row t.
type Assignment struct {
	Column string
	To     quote.Raw
}

// Sets are the columns that the table has of those that a change sets. The server may make them in this order, each with what the
// ones before have set: what looks at counts comes before they are changed. A column that cannot be NULL keeps what it has where
// there is nothing to show.
func (t *Table) Sets(r *store.RowChange) (set []Assignment) {
	c := &t.Columns
	assign := func(column string, v any) {
		text, ok := v.(quote.Raw)
		if !ok {
			text = quote.Raw(quote.Append(nil, v))
		}
		set = append(set, Assignment{column, text})
	}
	if t.View.Receipts {
		assign(t.col(c.Receipt), t.receiptExpr(r.Receipt))
	}
	if t.OnDelivered == outbox.Keep {
		return set
	}
	const now = quote.Raw("UTC_TIMESTAMP(6)")
	counts := []struct {
		col string
		typ *Column
		n   int
	}{{t.col(c.Failures), t.Column(c.Failures), r.Failures}, {t.col(c.Attempts), t.Column(c.Attempts), r.Attempts}}
	if col := t.col(c.LastAttemptAt); col != "" {
		more := ""
		for _, count := range counts {
			if count.col != "" {
				more = fmt.Sprintf("IF(%d > COALESCE(t.%s, 0), %s, t.%s)", count.n, count.col, now, col)
			}
		}
		switch {
		case r.Delivered:
			assign(col, now)
		case more != "":
			assign(col, quote.Raw(more))
		}
	}
	if col := t.col(c.Status); col != "" {
		assign(col, *t.Words.Word(r.State))
	}
	for _, count := range counts {
		switch {
		case count.col == "":
		case r.Delivered:
			assign(count.col, quote.Raw(fmt.Sprintf("GREATEST(COALESCE(t.%s, 0), %d)", count.col, count.typ.countOf(count.n))))
		default:
			assign(count.col, count.typ.countOf(count.n))
		}
	}
	if col := t.col(c.NextAttemptAt); col != "" {
		switch {
		case r.Next != nil:
			assign(col, t.Column(c.NextAttemptAt).timeOf(*r.Next))
		case !t.Column(c.NextAttemptAt).required:
			assign(col, time.Time{})
		}
	}
	if col := t.col(c.LastError); col != "" {
		text := t.Column(c.LastError).fit(r.Err)
		if text == nil && t.Column(c.LastError).required {
			text = ""
		}
		assign(col, text)
	}
	if col := t.col(c.DeliveredAt); col != "" && r.Delivered {
		assign(col, now)
	}
	if col := t.col(c.UpdatedAt); col != "" {
		assign(col, now)
	}
	for _, v := range t.SetFor(r.State) {
		switch column := quote.Ident(v.Column); {
		case v.Null:
			assign(column, quote.Raw("NULL"))
		case v.Now:
			assign(column, now)
		default:
			assign(column, quote.Raw(catalog.SetValue(v.Value)))
		}
	}
	return set
}

// countOf is a count as the column can hold it: one that is full stays there, because the row must be written.
func (c *Column) countOf(n int) int {
	_, most := catalog.IntegerBounds(c.typ, strings.Contains(c.full, "unsigned"))
	var digits, scale int
	if c.typ == "decimal" {
		if found, _ := fmt.Sscanf(c.full, "decimal(%d,%d)", &digits, &scale); found == 2 && digits-scale < 18 {
			most = 1
			for range digits - scale {
				most *= 10
			}
			most--
		}
	}
	return int(min(int64(n), most))
}

// lastTimestamp is the end of TIMESTAMP; that of MariaDB from 11.5 on is later. It has no fraction, which a column without one
// would round up.
var lastTimestamp = time.Date(2038, 1, 19, 3, 14, 7, 0, time.UTC)

// timeOf is a time as the column can hold it: one that is too far away is shown as the last one that there is.
func (c *Column) timeOf(v time.Time) time.Time {
	if c.typ == "timestamp" && v.After(lastTimestamp) {
		return lastTimestamp
	}
	return v
}

// fit is a text as the column can hold it; NULL for none.
func (c *Column) fit(text string) any {
	if text == "" {
		return nil
	}
	if strings.HasSuffix(c.typ, "text") || strings.HasSuffix(c.typ, "blob") || strings.HasSuffix(c.typ, "binary") {
		for c.length > 0 && len(text) > c.length {
			_, n := utf8.DecodeLastRuneInString(text)
			text = text[:len(text)-n]
		}
	} else if c.length > 0 && utf8.RuneCountInString(text) > c.length {
		text = string([]rune(text)[:c.length])
	}
	if c.charset == "" || strings.HasPrefix(c.charset, "utf8mb4") {
		return text
	}
	return quote.Raw("CONVERT(" + string(quote.Append(nil, text)) + " USING " + c.charset + ")")
}
