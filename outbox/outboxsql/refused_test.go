package outboxsql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/outbox"
)

// TestRefusedBeforehand: what the database would refuse in a column is refused before it is asked, whatever the column's type, so that
// the transaction goes on. What the writer lets through is written.
func TestRefusedBeforehand(t *testing.T) {
	each(t, func(r *rig) {
		types := []string{"text", "varchar(5)", "char(36)", "json", "int", "smallint", "bigint", "char(5)"}
		if r.dialect == outbox.Postgres {
			types = append(types, "jsonb", "uuid", "bytea", "boolean", "timestamptz", "timestamp", "name", "citish")
			r.exec("CREATE DOMAIN citish AS varchar(4) NOT NULL")
		} else {
			types = append(types, "binary(16)", "varbinary(5)", "tinyblob", "tinytext", "bigint unsigned", "tinyint unsigned", "mediumint",
				"varchar(5) CHARACTER SET ascii", "varchar(5) CHARACTER SET latin1", "varchar(5) CHARACTER SET utf8mb3")
		}
		values := []string{"", "a", "5", "-1", "40000", "70000", "3000000000", "9223372036854775807", "9223372036854775808", "99999999999999999999", "true",
			"\xff", "a\x00b", "ü", "€", "😀", "üüüüü", "üüüüüü", strings.Repeat("x", 63), strings.Repeat("x", 64), strings.Repeat("x", 256), strings.Repeat("ü", 200),
			"0193e5a0-0000-7000-8000-000000000001", "0193E5A0000070008000000000000001", "0193e5a0", "{0193e5a0-0000-7000-8000-000000000001}",
			`{}`, `{"a":1}`, `{"a":1`, `"\u0000"`, `"\ud800"`, `"\udc00"`, `"\ud83d\ude00"`, `"\\u0000"`, `"\ud800\n"`, `"\ud800\ud800"`, `"\"\ud800"`, `1e16000`, `1e400000`,
			`1e-400000`, `[1,]`, `nul`, `null`, "\"\t\"", "\"\xff\"", "\"a\x00\"", strings.Repeat("9", 200000), strings.Repeat("[", 99) + strings.Repeat("]", 99),
			strings.Repeat("[", 2999) + strings.Repeat("]", 2999), strings.Repeat("[", 9000) + strings.Repeat("]", 9000), strings.Repeat(`{"a":`, 2999) + "1" + strings.Repeat("}", 2999),
			strings.Repeat("[", 90000) + strings.Repeat("]", 90000)}
		refused, written := 0, 0
		for i, typ := range types {
			name := fmt.Sprint("tried", i) // statements that were prepared for another type would fail
			r.exec("CREATE TABLE " + name + " (id varchar(40) PRIMARY KEY, body " + typ + ")")
			w := r.writer(outbox.Table{Name: name, Columns: outbox.Columns{ID: "id", Payload: "body"}}, outbox.Options{})
			r.in(func(ctx context.Context, tx *sql.Tx) {
				for _, v := range values {
					_, err := w.Write(ctx, tx, outbox.Draft{Payload: []byte(v)})
					if _, ok := errors.AsType[*outbox.DraftError](err); ok {
						refused++
						continue
					}
					// MariaDB's json is a text with a constraint, and MySQL's takes fewer numbers: neither ends the transaction.
					known := r.kind == "mariadb" || r.kind == "mysql" && (strings.HasPrefix(v, "1e") || strings.HasPrefix(v, "9999"))
					if err != nil && !(typ == "json" && known) {
						r.Fatalf("%s %.40q: the database refused what the writer let through: %v", typ, v, err)
					}
					if err == nil {
						written++
					}
				}
			})
		}
		if refused < 100 || written < 150 {
			r.Errorf("%d refused, %d written: the test tries too little", refused, written)
		}
	})
}

// TestSizeOfJSON: what counts for MaxMessage is the text that the relay will read, which jsonb makes longer or shorter than what was written.
func TestSizeOfJSON(t *testing.T) {
	t.Parallel()
	r := newRig(t, "pgx")
	r.exec("CREATE TABLE tried (id varchar(40) PRIMARY KEY, body jsonb)")
	tab := outbox.Table{Name: "tried", Columns: outbox.Columns{ID: "id", Payload: "body"}}
	for _, text := range []string{`[1,2,3,{"a":[],"b":{}}]`, "[ 1 ,\n\t2 ]", `[1e5,1.5e3,-2e-3,1E+2]`, `{"a:,b":" , "}`, `"x"`, `[{},[]]`} {
		r.exec("INSERT INTO tried VALUES ('" + text[:1] + "', '" + text + "')")
		var read string
		if err := r.db.QueryRowContext(r.Context(), "DELETE FROM tried RETURNING body::text").Scan(&read); err != nil {
			t.Fatal(err)
		}
		for limit, want := range map[int]bool{len(read) + 20: true, len(read) - 1: false} {
			_, err := r.writer(tab, outbox.Options{MaxMessage: limit}).WriteAll(r.Context(), nothing{}, []outbox.Draft{{Payload: []byte(text)}})
			if _, refused := errors.AsType[*outbox.DraftError](err); refused == want {
				t.Errorf("%s, which is read as %s, with a limit of %d: %v", text, read, limit, err)
			}
		}
	}
}

// nothing is a transaction that fails.
type nothing struct{}

func (nothing) ExecContext(context.Context, string, ...any) (sql.Result, error) {
	return nil, errors.New("nothing")
}

func (nothing) QueryContext(context.Context, string, ...any) (*sql.Rows, error) {
	return nil, errors.New("nothing")
}
