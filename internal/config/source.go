package config

import (
	"fmt"
	"log/slog"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/router"
)

var slotPattern = regexp.MustCompile(`^[a-z0-9_]{1,63}$`)

// readSource reads the section source, and the router options under its tables. shared are the options of the whole
// pipeline.
func readSource(s *Section, pipeline string, shared router.Options) (Source, []router.Options) {
	byDefault := "tailbox_" + strings.ReplaceAll(pipeline, "-", "_")
	if s == nil {
		return Source{}, nil
	}
	defer s.Done()
	src := Source{Kind: s.String("kind", "")}
	switch src.Kind {
	case "postgres", "mysql", "mariadb", "mongodb":
	case "":
		s.Add("kind", "", "is missing", "postgres", "mysql", "mariadb", "mongodb")
	default:
		s.Add("kind", src.Kind, "is unknown", "postgres", "mysql", "mariadb", "mongodb")
	}
	before := len(s.file.problems)
	if src.URL = s.SourceURL(src.Kind); src.URL == "" && len(s.file.problems) == before {
		example := "a URI such as postgres://user@host:5432/database, or libpq keywords such as host=/var/run/postgresql dbname=shop"
		switch src.Kind {
		case "mongodb":
			example = "a URI such as mongodb://user@host:27017/database?replicaSet=rs0"
		case "mysql", "mariadb":
			example = "a URI such as mysql://user@host:3306/database, or mysql://user@/database?socket=/run/mysqld/mysqld.sock"
		}
		s.Add("url", "", "is missing: give "+example)
	}
	switch src.Kind {
	case "mongodb":
		src.Schema = s.String("schema", "")
		src.Start = s.Choice("start", "", "pending", "now")
		readToken(s, &src)
	case "mysql", "mariadb":
		readMySQL(s, &src)
	default:
		readPostgres(s, &src, byDefault)
	}
	src.Reconcile = s.Duration("reconcile", defaultReconcile)
	if src.Cleanup = s.Duration("cleanup_interval", defaultCleanup); src.Cleanup < time.Second {
		s.Add("cleanup_interval", src.Cleanup.String(), "must be at least 1s")
	}
	var options []router.Options
	src.Tables, options = readTables(s, src.Kind, shared)
	if src.Poll {
		checkPoll(s, &src)
	}
	src.OnUpdate = updateLevel(append(options[:len(options):len(options)], shared))
	return src, options
}

// SourceURL reads url, the address of a database of a kind.
func (s *Section) SourceURL(kind string) string {
	if kind == "postgres" {
		return s.Address("url")
	}
	return s.server("url")
}

// checkPoll tells what polling needs: rows in one order, which say themselves whether they are done.
func checkPoll(s *Section, src *Source) {
	if src.Reconcile <= 0 {
		s.Add("reconcile", "0", "must be above 0 with read: poll, because the comparison with the table is what finds rows whose number is below what was read")
	}
	if len(src.Tables) > 1 {
		s.Add("tables", "", fmt.Sprintf("has %d tables, and read: poll takes one, because the sequences of two have no common order: "+
			"give each table a pipeline of its own", len(src.Tables)))
	}
	for i := range src.Tables {
		t := &src.Tables[i]
		if t.Columns.Seq == "" {
			s.file.Add(s.at("tables", strconv.Itoa(i), "columns", "seq"), "", "is missing: read: poll goes by a column that a sequence (identity, AUTO_INCREMENT) fills: name it")
		}
		if t.OnDelivered == outbox.Keep {
			s.file.Add(s.at("tables", strconv.Itoa(i), "on_delivered"), string(t.OnDelivered), "cannot be used with read: poll, "+
				"because nothing would tell which rows are delivered", string(outbox.Delete), string(outbox.Mark))
		}
	}
}

// readPostgres reads what only Postgres has.
func readPostgres(s *Section, src *Source, byDefault string) {
	src.LockURL = s.Address("lock_url")
	src.Slot = s.String("slot", byDefault)
	if !slotPattern.MatchString(src.Slot) {
		s.Add("slot", src.Slot, "must be 1 to 63 small letters, digits or _, as Postgres asks for")
	}
	src.Publication = s.identifier("publication", s.String("publication", byDefault))
	if len(src.Publication) > 63 {
		s.Add("publication", src.Publication, "must have at most 63 bytes")
	}
	src.Failover = s.Bool("failover", false)
	src.TakeOver = s.Bool("take_over", false)
	src.Schema = s.identifier("schema", s.String("schema", ""))
	readStart(s, src)
	if src.Messages = s.String("messages", ""); src.Messages != "" && src.Poll {
		s.Add("messages", src.Messages, "cannot be used with read: poll: such messages are in the log alone")
	}
}

// readMySQL reads what only MySQL and MariaDB have.
func readMySQL(s *Section, src *Source) {
	src.LockURL = s.server("lock_url")
	src.ServerID = uint32(s.Int("server_id", 0, 1, math.MaxUint32))
	src.Schema = s.String("schema", "")
	readStart(s, src)
	readPlace(s, src)
}

var (
	binlogFile  = regexp.MustCompile(`^[^/:\s]+\.[0-9]+$`)
	resumeToken = regexp.MustCompile(`^82[0-9A-Fa-f]{16,}$`)
)

// readPlace reads where another reader of the binlog stopped.
func readPlace(s *Section, src *Source) {
	at := s.Section("take_over")
	if at == nil {
		return
	}
	defer at.Done()
	file, pos := at.String("file", ""), at.String("pos", "")
	if !binlogFile.MatchString(file) {
		at.Add("file", file, "must be the name of a file of the binlog, such as mysql-bin.000003")
	}
	const first = 4
	if n, err := strconv.ParseUint(pos, 10, 48); err != nil || n < first {
		at.Add("pos", pos, fmt.Sprintf("must be a position in that file, a number from %d on", first))
	}
	src.LeftOff.Position, src.LeftOff.GTIDs = file+":"+pos, at.String("gtids", "")
	if src.Poll {
		s.Add("take_over", "", "cannot be used with read: poll, which does not read the log")
	}
}

// readToken reads where another reader of a change stream stopped.
func readToken(s *Section, src *Source) {
	at := s.Section("take_over")
	if at == nil {
		return
	}
	defer at.Done()
	if src.LeftOff.Position = at.String("resume_token", ""); !resumeToken.MatchString(src.LeftOff.Position) {
		at.Add("resume_token", src.LeftOff.Position, "must be the text (_data) of a resume token: 82 and further hexadecimal digits")
	}
}

func readStart(s *Section, src *Source) {
	src.Start = s.Choice("start", "", "pending", "now")
	src.Poll = s.Choice("read", "log", "log", "poll") == "poll"
}

// updateLevel is the level at which updates of outbox rows are logged; nil = they are only counted.
func updateLevel(all []router.Options) *slog.Level {
	var level *slog.Level
	for _, o := range all {
		switch behavior, _ := o.Get("table.op.invalid.behavior"); {
		case behavior == "error", behavior == "fatal":
			return new(slog.LevelError)
		case behavior != "":
			level = new(slog.LevelWarn)
		}
	}
	return level
}
