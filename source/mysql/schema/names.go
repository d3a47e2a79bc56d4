package schema

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/mysql/server"
)

// Names are the relay's own tables, qualified and quoted.
type Names struct{ Checkpoint, Parked, Request string }

// NamesIn qualifies the relay's tables; schema "" leaves them to the default database.
func NamesIn(schema string) Names {
	q := func(name string) string {
		if schema == "" {
			return quote.Ident(name)
		}
		return quote.Ident(schema) + "." + quote.Ident(name)
	}
	return Names{q("tailbox_checkpoint"), q("tailbox_parked"), q("tailbox_request")}
}

// expand puts the tables in the place of {checkpoint}, {parked} and {request} in a statement.
func (n Names) expand(sql string) string {
	return strings.NewReplacer("{checkpoint}", n.Checkpoint, "{parked}", n.Parked, "{request}", n.Request).Replace(sql)
}

// InSchema is the relay's database in a condition; "" stands for that of the connection.
func InSchema(schema string) string {
	if schema == "" {
		return "DATABASE()"
	}
	return quote.Text(schema)
}

// Missing reports whether a table does not exist, or is not shown to this account.
func Missing(ctx context.Context, s *server.Conn, schema, name string) (bool, error) {
	rows, err := s.Texts(ctx, "SELECT 1 FROM information_schema.tables WHERE table_schema = "+InSchema(schema)+" AND table_name = "+quote.Text(name))
	if err != nil {
		return false, fmt.Errorf("look for table %s: %w", name, err)
	}
	return len(rows) == 0, nil
}

// LockName is the name of the pipeline's lock: names of locks belong to a server, so that of the database is in it.
// They have at most 64 characters.
func LockName(schema, pipeline string) string {
	sum := sha256.Sum256([]byte(schema + "\x00" + pipeline))
	return fmt.Sprintf("tailbox:%x", sum[:24])
}
