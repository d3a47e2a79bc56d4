package stream

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres/session"
)

// Servers speak many languages, and a file that is not there may be another than a piece of the log.
func TestErrorsInOtherWords(t *testing.T) {
	t.Parallel()
	st := &stream{cfg: &session.Config{Publication: "tailbox_shop"}}
	for _, n := range []*pgconn.PgError{{Code: "55000", Message: "Laden der Publikation »tailbox_shop« wurde übersprungen"},
		{Code: "55000", Message: "omis", Routine: "LoadPublications"}} {
		if err := st.notice(n); !errors.Is(err, source.ErrGap) {
			t.Errorf("notice %q: %v, want a gap", n.Message, err)
		}
	}
	for message, gap := range map[string]bool{"das angeforderte WAL-Segment 000000010000000000000003 wurde schon entfernt": true,
		`could not access file "pgoutput": No such file or directory`: false} {
		if err := streamError(&pgconn.PgError{Code: "58P01", Message: message}); errors.Is(err, source.ErrGap) != gap {
			t.Errorf("%s: %v, want a gap: %v", message, err, gap)
		}
	}
}

// A row that the server cannot put into one message will never come, however often the log is read: it is found by a sweep.
func TestRowTooLargeForTheServer(t *testing.T) {
	t.Parallel()
	for _, e := range []struct {
		code, message string
		gap           bool
	}{{"54000", "out of memory", true}, {"XX000", "invalid memory alloc request size 1258291203", true}, {"XX000", "cache lookup failed for type 5", false},
		{"53200", "out of memory", false}} {
		if err := streamError(&pgconn.PgError{Code: e.code, Message: e.message}); errors.Is(err, source.ErrGap) != e.gap || errors.Is(err, source.ErrStop) {
			t.Errorf("%s %s: %v, want a gap: %v", e.code, e.message, err, e.gap)
		}
	}
}
