package stream

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/mysqltest"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/test/servers"
)

// LOAD DATA in statement format brings its file along in the log. Into other tables it is passed; into an outbox table it is a
// statement whose rows the log does not hold.
func TestLoadDataInStatementFormat(t *testing.T) {
	mysqltest.OnKinds(t, func(t *testing.T, kind string) {
		r := newSourceRig(t, servers.MySQL(t, kind, servers.WithSetting("secure-file-priv", ""), servers.WithSetting("read_buffer_size", "16K")))
		file := filepath.Join(r.My.DataDir, "outbox.csv")
		r.Exec("CREATE TABLE words (word TEXT)", "CREATE TABLE other_outbox (word VARCHAR(100) PRIMARY KEY)",
			"INSERT INTO words VALUES ('"+strings.Repeat("x'), ('", 50)+strings.Repeat("y", 60_000)+"')", "SELECT * FROM words INTO OUTFILE '"+file+"'")
		r.Cfg.Tables[0].OnDelivered = outbox.Keep
		r.Renew()
		from := r.Establish()
		r.Exec(mysqltest.Insert(1), "SET SESSION binlog_format = 'STATEMENT'", "BEGIN", "LOAD DATA INFILE '"+file+"' INTO TABLE words", "COMMIT",
			"LOAD DATA INFILE '"+file+"' IGNORE INTO TABLE other_outbox", "SET SESSION binlog_format = 'ROW'", mysqltest.Insert(2))
		x := r.Run(from)
		x.Until("1 2")
		x.Stop()
		r.Exec("SET SESSION binlog_format = 'STATEMENT'", "LOAD DATA INFILE '"+file+"' IGNORE INTO TABLE `outbox` (payload) SET id = UUID(), type = 'T'",
			"SET SESSION binlog_format = 'ROW'", mysqltest.Insert(3))
		if err := endsBefore(r.Run(x.Resume), mysqltest.Number(3)); !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), "rows of "+r.DB+".outbox were written in statement format") {
			t.Errorf("Run over LOAD DATA into the outbox: %v", err)
		}
	})
}

// However a statement is dressed up, rows that it writes into an outbox table are not passed in silence.
func TestStatementsInDisguise(t *testing.T) {
	mysqltest.OnKinds(t, func(t *testing.T, kind string) {
		r := newSourceRig(t, servers.SharedMySQL(t, kind))
		r.Cfg.Tables[0].OnDelivered = outbox.Keep
		r.Renew()
		r.Exec("CREATE TABLE other (id CHAR(36), type TEXT, payload TEXT)", "CREATE TABLE other_outbox (id CHAR(36))", "CREATE TRIGGER noise AFTER INSERT ON other FOR EACH ROW SET @outbox = 1")
		r.Exec("CREATE FUNCTION write_outbox() RETURNS INT DETERMINISTIC MODIFIES SQL DATA BEGIN INSERT INTO outbox (id, type, payload) VALUES (UUID(), 'T', 'p'); RETURN 1; END",
			"CREATE PROCEDURE write_it() INSERT INTO outbox (id, type, payload) VALUES (UUID(), 'T', 'p')")
		const rest = " outbox (id, type, payload) VALUES (UUID(), 'T', 'p')"
		statements := []string{"/* app */ INSERT INTO" + rest, "-- app\nINSERT INTO" + rest, "# app\ninsert\tinto" + rest, "/*!50000 INSERT */ INTO" + rest,
			"INSERT/* x */INTO" + rest, "/* a */ /* b */-- c\n\n\t/*! REPLACE INTO */" + rest, "INSERT INTO `outbox`(id, type, payload) SELECT UUID(), 'T', 'p'",
			"INSERT outbox SET id = UUID(), type = 'T', payload = 'p'", "REPLACE LOW_PRIORITY " + r.DB + " . `outbox` (id, type, payload) VALUES (UUID(), 'T', 'p')",
			"CALL write_it()", "DO write_outbox()", "SELECT write_outbox()", "INSERT INTO outbox (id, type, payload) WITH c AS (SELECT 1 n) SELECT UUID(), 'T', n FROM c"}
		if kind == server.KindMariaDB {
			statements = append(statements, "SET STATEMENT max_statement_time = 100 FOR INSERT INTO"+rest, "ANALYZE FORMAT=JSON INSERT INTO"+rest,
				"/*M!100000 INSERT */ INTO"+rest, "EXECUTE IMMEDIATE CONCAT('INSERT INTO out', 'box (id, type, payload) VALUES (UUID(), ''T'', ''p'')')")
		}
		for i, sql := range statements {
			from := r.Establish()
			r.Exec(mysqltest.Insert(10*i+1), "SET SESSION binlog_format = 'STATEMENT'", sql, "SET SESSION binlog_format = 'ROW'", mysqltest.Insert(10*i+2))
			x := r.Run(from)
			if err := endsBefore(x, mysqltest.Number(10*i+2)); !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), "rows of "+r.DB+".outbox were written in statement format") {
				t.Errorf("Run over %q: %v", sql, err)
			}
			if len(x.Messages) != 1 || x.Messages[0].ID != mysqltest.Number(10*i+1) {
				t.Errorf("Run over %q: %d messages were emitted, want the one before", sql, len(x.Messages))
			}
		}
		// Statements that write other tables, or no rows, are passed.
		from := r.Establish()
		r.Exec(mysqltest.Insert(901), "SET SESSION binlog_format = 'STATEMENT'", "/* outbox */ INSERT INTO other VALUES ('1', 'outbox', 'it''s \\'outbox')",
			"-- INSERT INTO outbox\nUPDATE outbox SET type = 'U' LIMIT 0", "/* INSERT INTO outbox */ DELETE FROM outbox WHERE id = ''",
			"/* x */ ALTER TABLE outbox COMMENT 'INSERT INTO outbox'", "SET SESSION binlog_format = 'ROW'", mysqltest.Insert(902))
		x := r.Run(from)
		x.Until("901 902")
		x.Stop()
	})
}

// endsBefore waits for the end of Run, or for a message that it should not have come to.
func endsBefore(x *mysqltest.Tail, id string) error {
	x.R.T.Helper()
	for {
		select {
		case b := <-x.Batches:
			x.Messages = append(x.Messages, b.Messages...)
			for _, m := range b.Messages {
				if m.ID == id {
					x.Cancel()
					return errors.Join(errors.New("it went on to message "+mysqltest.ShortID(id)), x.Fails())
				}
			}
		case err := <-x.Done:
			return err
		case <-time.After(mysqltest.Patience):
			x.R.T.Fatalf("Run did not end in %v", mysqltest.Patience)
		}
	}
}
