package ddl

import (
	"fmt"
	"strings"

	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
)

// Publication makes the publication if it is missing, and adds tables that it lacks. One of all tables lacks none, and takes none. Only inserts are published:
// nothing else is wanted, and with updates a row filter that the replica identity does not cover would make every
// UPDATE of the application fail. Partitions are published as their root. A comment tells whose it is.
func Publication(cfg session.Config) string {
	pub := sqltext.Literal(cfg.Publication)
	var create, add strings.Builder
	for i := range cfg.Tables {
		t := sqltext.Table(&cfg.Tables[i])
		if i > 0 {
			create.WriteString(", ")
		}
		create.WriteString(t)
		fmt.Fprintf(&add, `	IF NOT EXISTS (SELECT FROM pg_catalog.pg_publication p WHERE p.pubname OPERATOR(pg_catalog.=) %s AND (p.puballtables OR EXISTS (SELECT FROM pg_catalog.pg_publication_rel r
		WHERE r.prpubid OPERATOR(pg_catalog.=) p.oid AND r.prrelid OPERATOR(pg_catalog.=) %s::pg_catalog.regclass))) THEN
		ALTER PUBLICATION %s ADD TABLE %s;
	END IF;
`, pub, sqltext.Literal(t), sqltext.Ident(cfg.Publication), t)
	}
	return fmt.Sprintf(`DO $tailbox$
BEGIN
	IF NOT EXISTS (SELECT FROM pg_catalog.pg_publication WHERE pubname OPERATOR(pg_catalog.=) %s) THEN
		CREATE PUBLICATION %s FOR TABLE %s WITH (publish = 'insert', publish_via_partition_root = true);
		COMMENT ON PUBLICATION %[2]s IS %[5]s;
	END IF;
%[4]sEND
$tailbox$;
`, pub, sqltext.Ident(cfg.Publication), create.String(), add.String(), sqltext.Literal(PublicationMark(cfg)))
}

// PublicationMark is the comment by which a pipeline knows a publication that was made for it. It is there before the pipeline has a
// row in tailbox_checkpoint, and goes with the publication.
func PublicationMark(cfg session.Config) string { return "tailbox: pipeline " + cfg.Pipeline }
