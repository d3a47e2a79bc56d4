package stream

import (
	"errors"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/mysqltest"
	"github.com/tailbox/tailbox/test/servers"
)

// A group that cannot be read is that of one row: it becomes a message without a group and with a fault, and the rows around it are as ever. A
// column that cannot be read in any row stops Run with the fix.
func TestUnreadableGroups(t *testing.T) {
	mysqltest.OnKinds(t, func(t *testing.T, kind string) {
		r := newSourceRig(t, servers.SharedMySQL(t, kind))
		r.Exec("ALTER TABLE outbox MODIFY message_group VARCHAR(255) NOT NULL DEFAULT 'd'")
		from := r.Establish()
		r.Exec(mysqltest.Insert(1), "SET SESSION binlog_row_image = 'MINIMAL'", "INSERT INTO outbox (id, type, payload) VALUES ('"+mysqltest.Number(2)+"', 'T', 'p')",
			"SET SESSION binlog_row_image = 'FULL'", mysqltest.Insert(3))
		x := r.Run(from)
		x.Until("1 2 3")
		x.Stop()
		if m := x.Messages[1]; m.Group != "" || m.Fault == nil || m.Fault.Class != outbox.FaultUndecodable || !strings.Contains(m.Fault.Reason, "column message_group") {
			t.Errorf("a row without its group: %q, %+v", m.Group, m.Fault)
		}
		r.Exec("ALTER TABLE outbox MODIFY message_group VARCHAR(255) CHARACTER SET cp1250", mysqltest.Insert(4))
		if err := r.Run(x.Resume).Fails(); !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), "message_group") || !strings.Contains(err.Error(), "utf8mb4") {
			t.Errorf("Run with a group in a character set that is not read: %v", err)
		}
	})
}
