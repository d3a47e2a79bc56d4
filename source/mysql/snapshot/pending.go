package snapshot

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/catalog"
	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/store"
)

// Judge implements source.Snapshot.
func (s *Tables) Judge(ctx context.Context, known source.Known) (bool, error) {
	s.sweeps = nil
	var unjudged []error
	for i := range s.cfg.Tables {
		info, err := catalog.Describe(ctx, s.conn, &s.cfg.Tables[i])
		if err != nil {
			return false, err
		}
		rows, err := catalog.NewReader(info, s.cfg.MaxMessage)
		if err != nil {
			return false, err
		}
		where, fix := info.PendingRows(s.cfg.Start, known)
		if where == "" {
			continue
		}
		if s.within != "" {
			where = "(" + where + ") AND " + s.within
		}
		found, err := s.conn.Texts(ctx, "SELECT 1 FROM "+rows.From()+" t WHERE "+where+" LIMIT 1")
		switch {
		case err != nil:
			return false, fmt.Errorf("look for pending rows in %s: %w", info, err)
		case len(found) > 0 && fix != "" && !known.AcceptGap:
			unjudged = append(unjudged, fmt.Errorf("table %s has rows and neither a status nor a delivered_at column: %s: %w", info, fix, source.ErrUnjudged))
		case len(found) > 0 && fix == "":
			s.sweeps = append(s.sweeps, sweep{rows, where})
		}
	}
	return len(s.sweeps) > 0, errors.Join(unjudged...)
}

// Pending implements source.Snapshot. Tables come in their configured order. The rows of one are ordered by the sequence column,
// else by created_at, and then by id.
func (s *Tables) Pending(ctx context.Context, log uint32, emit source.Emit) error {
	p := store.Sweep{Log: log, Emit: emit}
	now, err := s.conn.Texts(ctx, "SELECT UTC_TIMESTAMP(6)")
	if err != nil {
		return fmt.Errorf("read the server's time: %w", err)
	}
	if p.Now, err = catalog.ParseTime(now[0][0]); err != nil {
		return fmt.Errorf("read the server's time: %w", err)
	}
	parked, err := s.parkedTable(ctx)
	if err != nil {
		return err
	}
	for _, sw := range s.sweeps {
		if err := s.pendingOf(ctx, sw, parked, &p); err != nil {
			return err
		}
	}
	return p.Flush(ctx)
}

// parkedTable is the quoted name of tailbox_parked if it has rows of this pipeline, else "".
func (s *Tables) parkedTable(ctx context.Context) (string, error) {
	schema, name := "DATABASE()", "tailbox_parked"
	if s.cfg.Schema != "" {
		schema, name = quote.Text(s.cfg.Schema), quote.Ident(s.cfg.Schema)+"."+name
	}
	rows, err := s.conn.Texts(ctx, "SELECT 1 FROM information_schema.tables WHERE table_schema = "+schema+" AND table_name = 'tailbox_parked'")
	if err != nil || len(rows) == 0 {
		return "", server.Wrap("look up table tailbox_parked", err)
	}
	rows, err = s.conn.Texts(ctx, "SELECT 1 FROM "+name+" WHERE pipeline = "+quote.Text(s.cfg.Pipeline)+" LIMIT 1")
	if err != nil || len(rows) == 0 {
		return "", server.Wrap("look for parked deliveries", err)
	}
	return name, nil
}

// pendingOf emits the rows of one table, as they come from the server.
func (s *Tables) pendingOf(ctx context.Context, sw sweep, parked string, p *store.Sweep) error {
	r := sw.rows
	sinks, join := "NULL", ""
	if parked != "" {
		// All states count: also of a delivery that was dropped or delivered, a row is kept until its message is settled.
		sinks = "p.sinks"
		join = " LEFT JOIN (SELECT message_id, GROUP_CONCAT(sink SEPARATOR ',') AS sinks FROM " + parked + " WHERE pipeline = " +
			quote.Text(s.cfg.Pipeline) + " AND source_table = " + quote.Text(r.Table.String()) +
			" GROUP BY message_id) p ON p.message_id = CAST(" + r.ID("t") + " AS BINARY)"
	}
	query := "SELECT " + r.SelectList("t") + ", " + sinks + " FROM " + r.From() + " t" + join + " WHERE " + sw.where + " ORDER BY " + r.Table.Order("t")
	names := make(rowNames)
	err := s.conn.Stream(ctx, query, func(row []mysql.FieldValue) error {
		m, err := r.Message(row)
		if err != nil {
			return err
		}
		if m.ID == "" {
			m.ID = names.of(row[:r.Width()])
		}
		var at []string
		if v := &row[r.Width()]; v.Type == mysql.FieldValueTypeString {
			at = strings.Split(string(v.AsString()), ",")
		}
		return p.Add(ctx, m, at)
	})
	if p.Refused != nil {
		return p.Refused // as it is
	}
	return server.Wrap("read pending rows of "+r.Table.String(), err)
}

// rowNames count the rows without an id by what is in them.
type rowNames map[[sha256.Size]byte]int

// of is the stand-in for a row's id: what is in the row, and which of those that are equal it is. So a sweep that is repeated gives it
// again, and a row that is parked under it is not parked twice.
func (n rowNames) of(row []mysql.FieldValue) string {
	h := sha256.New()
	for i := range row {
		v := &row[i]
		if v.Type == mysql.FieldValueTypeNull {
			h.Write([]byte{0})
			continue
		}
		text := v.AsString()
		h.Write(append(binary.AppendUvarint([]byte{1}, uint64(len(text))), text...))
	}
	sum := [sha256.Size]byte(h.Sum(nil))
	n[sum]++
	return outbox.StandInID(fmt.Sprintf("row-%s-%d", hex.EncodeToString(sum[:16]), n[sum]))
}
