//go:build e2e

package e2e

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tailbox/tailbox/test/servers"
)

// A loss is something that happens to a server while no relay runs.
type loss struct {
	name string
	// backup: a copy of the data is taken, and put in the data's place after more was delivered.
	backup bool
	// same: the copy keeps the server's identity. Ahead: the checkpoint is not restored with the rest.
	same, ahead bool
	happen      func(l *Lost)
	// followed: the log can be read on, nothing is lost.
	followed bool
	// only: the other server does not do so.
	only string
}

func mySQLLosses() []loss {
	nothing := func(*Lost) {}
	return []loss{
		{name: "purged", happen: purgeBinlog},
		{name: "reset", happen: resetBinlog},
		{name: "reset and longer than before", happen: func(l *Lost) { resetBinlog(l); l.Write(300) }},
		{name: "killed within an event", happen: cutBinlog, only: "mariadb", followed: true},
		{name: "restored as another server", backup: true, happen: nothing, followed: true},
		{name: "restored as another server without its log", backup: true, happen: removeBinlog},
		{name: "restored as another server behind the checkpoint", backup: true, ahead: true, happen: nothing},
		{name: "restored as the same server behind the checkpoint", backup: true, ahead: true, same: true, happen: nothing},
	}
}

// TestLostBinlog loses the position in the binlog. Where rows are deleted or marked, all that is pending is delivered, in order;
// where they are kept the relay stops, and names accept-gap; where the log can be followed nothing happens. In no case the relay goes
// on in silence.
func TestLostBinlog(t *testing.T) {
	for _, kind := range servers.MySQLKinds() {
		for i, what := range mySQLLosses() {
			if what.only != "" && what.only != kind {
				continue
			}
			t.Run(kind+" "+what.name, func(t *testing.T) {
				t.Parallel()
				loseBinlog(t, kind, []string{"outbox", "events"}[i%2], false, what)
			})
			t.Run(kind+" "+what.name+" rows kept", func(t *testing.T) {
				t.Parallel()
				loseBinlog(t, kind, "outbox", true, what)
			})
		}
	}
}

func loseBinlog(t *testing.T, kind, table string, keep bool, what loss) {
	t.Helper()
	o := Options{Kind: kind, Own: true}
	l := NewLost(NewBed(t, o), o, table, keep)
	l.Run()
	l.AwaitDelivered(l.Write(20))
	l.Halt()
	pending := l.Write(10)
	if what.backup {
		restoreMySQL(t, l, pending, what)
	}
	what.happen(l)
	l.Write(10)
	if keep && !what.followed {
		l.Refused()
		return
	}
	l.Run()
	l.Healed()
}

// restoreMySQL takes a copy of the data, has more delivered, and puts the copy back.
func restoreMySQL(t *testing.T, l *Lost, pending []int64, what loss) {
	t.Helper()
	backup := filepath.Join(t.TempDir(), "backup")
	l.whileDown(l.My.Stop, func() error { return copyTree(l.My.DataDir, backup) })
	l.Run()
	l.AwaitDelivered(append(l.Write(10), pending...))
	l.Halt()
	saved, err := l.textsMySQL(t.Context(), `SELECT CONCAT('UPDATE tailbox_checkpoint SET source_id = ', QUOTE(source_id), ', resume = ', QUOTE(resume),
		', log = ', log, ', last_commit = ', last_commit, ', settled_above = ', QUOTE(settled_above)) FROM tailbox_checkpoint`)
	if err != nil {
		t.Fatal(err)
	}
	l.whileDown(l.My.Stop, func() error {
		if l.Kind == "mysql" && !what.same {
			if err := os.Remove(filepath.Join(backup, "auto.cnf")); err != nil {
				return err
			}
		}
		return copyTree(backup, l.My.DataDir)
	})
	if l.Kind == "mariadb" && !what.same {
		if err := l.My.RestartWith(servers.WithSetting("server-id", "77")); err != nil {
			t.Fatal(err)
		}
	}
	if what.ahead {
		l.ExecMySQL(saved[0])
	}
	l.Ledger.Forgive(pending...) // the copy knows nothing of their delivery
}

// purgeBinlog removes all files of the binlog but the last.
func purgeBinlog(l *Lost) {
	l.tb.Helper()
	l.ExecMySQL("FLUSH BINARY LOGS")
	l.Write(5)
	files, err := l.textsMySQL(l.context(), "SHOW BINARY LOGS")
	if err != nil {
		l.tb.Fatal(err)
	}
	l.Eventually(time.Minute, func() string {
		l.ExecMySQL("PURGE BINARY LOGS TO '" + files[len(files)-1] + "'") // it leaves a file that the server still sends to somebody
		files, err := l.textsMySQL(l.context(), "SHOW BINARY LOGS")
		if err != nil || len(files) > 1 {
			return fmt.Sprintf("the binlog has the files %v (%v)", files, err)
		}
		return ""
	})
}

// resetBinlog begins the log anew.
func resetBinlog(l *Lost) {
	l.tb.Helper()
	reset := "RESET BINARY LOGS AND GTIDS"
	if l.Kind == "mariadb" {
		reset = "RESET MASTER"
	}
	l.ExecMySQL(reset)
}

// cutBinlog leaves the beginning of an event at the end of the log, as a server does that is killed while it writes one. MySQL takes it away as it starts.
func cutBinlog(l *Lost) {
	l.tb.Helper()
	l.whileDown(l.My.Kill, func() error {
		files, err := filepath.Glob(filepath.Join(l.My.DataDir, "bin.[0-9]*"))
		if err != nil || len(files) == 0 {
			return fmt.Errorf("find the log: %v: %w", files, err)
		}
		last, err := os.OpenFile(slices.Max(files), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		// A header: time, kind (the rows of an insert), server, size, the event's end and flags.
		header := append(binary.LittleEndian.AppendUint32(nil, uint32(time.Now().Unix())), 23)
		for _, field := range []uint32{1, 500, 0} {
			header = binary.LittleEndian.AppendUint32(header, field)
		}
		_, err = last.Write(append(header, make([]byte, 30)...))
		return errors.Join(err, last.Close())
	})
}

// removeBinlog removes the files of the log, as a backup may have none of them.
func removeBinlog(l *Lost) {
	l.tb.Helper()
	l.whileDown(l.My.Stop, func() error {
		files, err := filepath.Glob(filepath.Join(l.My.DataDir, "bin.*"))
		for _, f := range files {
			err = errors.Join(err, os.Remove(f))
		}
		return err
	})
}

// TestResetBesideRelay resets the binlog, or purges what a relay that is held up has yet to read, while the relay runs: it goes on by
// itself.
func TestResetBesideRelay(t *testing.T) {
	for _, kind := range servers.MySQLKinds() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			o := Options{Kind: kind, Own: true}
			l := NewLost(NewBed(t, o), o, "outbox", false)
			l.Run()
			for range 3 {
				l.AwaitDelivered(l.Write(20))
				resetBinlog(l)
			}
			l.AwaitDelivered(l.Write(20))
			l.Healed()
		})
	}
}
