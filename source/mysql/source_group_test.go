package mysql

import (
	"errors"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/test/servers"
)

// A group that cannot be read is that of one row: it becomes a message without a group and with a fault, and the rows around it are as ever. A
// column that cannot be read in any row stops Run with the fix.
func TestUnreadableGroups(t *testing.T) {
	onKinds(t, func(t *testing.T, kind string) {
		r := newSourceRig(t, servers.SharedMySQL(t, kind))
		r.exec("ALTER TABLE outbox MODIFY message_group VARCHAR(255) NOT NULL DEFAULT 'd'")
		from := r.establish()
		r.exec(insert(1), "SET SESSION binlog_row_image = 'MINIMAL'", "INSERT INTO outbox (id, type, payload) VALUES ('"+number(2)+"', 'T', 'p')",
			"SET SESSION binlog_row_image = 'FULL'", insert(3))
		x := r.run(from)
		x.until("1 2 3")
		x.stop()
		if m := x.messages[1]; m.Group != "" || m.Fault == nil || m.Fault.Class != outbox.FaultUndecodable || !strings.Contains(m.Fault.Reason, "column message_group") {
			t.Errorf("a row without its group: %q, %+v", m.Group, m.Fault)
		}
		r.exec("ALTER TABLE outbox MODIFY message_group VARCHAR(255) CHARACTER SET cp1250", insert(4))
		if err := r.run(x.resume).fails(); !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), "message_group") || !strings.Contains(err.Error(), "utf8mb4") {
			t.Errorf("Run with a group in a character set that is not read: %v", err)
		}
	})
}
