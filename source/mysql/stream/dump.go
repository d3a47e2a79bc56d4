package stream

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/binlog"
	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/mysql/server"
)

const (
	// writeTimeout is how long the server waits for a reader that does not read, because the relay has no memory for more.
	writeTimeout = time.Hour
)

// A dump is a connection that the binlog comes over.
type dump struct {
	session *server.Conn
	wire    *binlog.Reader
	server  *server.Info
}

func (d *dump) close(ctx context.Context) error {
	d.session.Broken = true // it speaks another protocol now
	return d.session.Close(ctx)
}

// openDump connects for reading the binlog, and looks whether the server is one whose log can be read.
func (s *Source) openDump(ctx context.Context) (*dump, error) {
	conn, err := s.cfg.Connect(ctx, s.cfg.URL)
	if err != nil {
		return nil, err
	}
	d := &dump{session: conn}
	if d.server, err = server.Inspect(ctx, conn); err == nil {
		err = s.cfg.Logged(ctx, conn)
	}
	if err == nil {
		err = s.prepareDump(ctx, d)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("prepare to read the binlog: %w", err), conn.Close(ctx))
	}
	return d, nil
}

// Try connects as a relay does that reads the binlog, and leaves again. Refused is why it could not.
func Try(ctx context.Context, cfg server.Config) (refused, err error) {
	d, err := New(cfg).openDump(ctx)
	if err != nil {
		return err, nil
	}
	return nil, d.close(ctx)
}

// prepareDump tells the server who reads, and what it understands.
func (s *Source) prepareDump(ctx context.Context, d *dump) error {
	period := strconv.FormatInt(binlog.Heartbeat.Nanoseconds(), 10)
	set := "SET @master_heartbeat_period = " + period + ", @source_heartbeat_period = " + period +
		", @master_binlog_checksum = @@global.binlog_checksum, @source_binlog_checksum = @@global.binlog_checksum" +
		", @slave_uuid = " + quote.Text(s.uuid) + ", @replica_uuid = " + quote.Text(s.uuid) +
		", net_write_timeout = " + strconv.Itoa(int(writeTimeout.Seconds()))
	if d.session.Server.MariaDB {
		set += ", @mariadb_slave_capability = 4" // it understands GTIDs
	}
	if _, err := d.session.Exec(ctx, set); err != nil {
		return err
	}
	if err := s.checkServerID(ctx, d); err != nil {
		return err
	}
	host := "tailbox_" + s.cfg.Pipeline
	host = host[:min(len(host), 60)]
	b := binlog.RegisterReplica(s.serverID, host)
	return d.session.Guard(ctx, func() error {
		d.session.Client.ResetSequence()
		if err := d.session.Client.WritePacket(b); err != nil {
			return err
		}
		if _, err := d.session.Client.ReadOKPacket(); err != nil {
			return server.RightsFix(d.session, err)
		}
		return nil
	})
}

// checkServerID looks whether another reader of the binlog has the number that this one wants. A number that was drawn is
// drawn again.
func (s *Source) checkServerID(ctx context.Context, d *dump) error {
	rows, err := d.session.Texts(ctx, showReplicas(d.session))
	switch code := server.Code(err); {
	case code == server.CodeNeedPrivilege || code == server.CodeAccessDenied:
		return nil // MariaDB asks for a privilege that this is not worth
	case err != nil:
		return fmt.Errorf("list the server's replicas: %w", err)
	}
	taken := map[string]string{d.server.ServerID: "the server itself"}
	for _, r := range rows {
		// Of an earlier connection of this pipeline: the server ends that one.
		if len(r) > 1 && r[1] != "tailbox_"+s.cfg.Pipeline {
			taken[r[0]] = "replica " + r[1]
		}
	}
	for {
		who, clash := taken[strconv.FormatUint(uint64(s.serverID), 10)]
		switch {
		case !clash:
			return nil
		case s.cfg.ServerID != 0:
			return fmt.Errorf("server_id %d is that of %s: choose another one: %w", s.cfg.ServerID, who, source.ErrStop)
		}
		s.serverID = randomServerID()
	}
}

func showReplicas(s *server.Conn) string {
	if s.Server.MariaDB || !s.Server.AtLeast(8, 0, 22) {
		return "SHOW SLAVE HOSTS"
	}
	return "SHOW REPLICAS"
}

// randomServerID draws from the upper half, where people seldom number servers.
func randomServerID() uint32 { return 1<<31 | rand.Uint32() }

// start has the server send the binlog from a position on.
func (s *Source) start(ctx context.Context, d *dump, at binlog.Position) error {
	return d.begin(ctx, binlog.DumpFrom(s.serverID, at))
}

// startAfter has the server send what is not in a set of GTIDs.
func (s *Source) startAfter(ctx context.Context, d *dump, set *binlog.GTIDSet) error {
	if d.session.Server.MariaDB {
		_, err := d.session.Exec(ctx, "SET @slave_connect_state = "+quote.Text(set.String())+", @slave_gtid_strict_mode = 1, @slave_gtid_ignore_duplicates = 0")
		if err != nil {
			return fmt.Errorf("start to read the binlog: %w", err)
		}
		return d.begin(ctx, binlog.DumpFromState(s.serverID))
	}
	command, err := binlog.DumpAfter(s.serverID, set)
	if err != nil {
		return err
	}
	return d.begin(ctx, command)
}

// begin sends the command that starts the stream, and takes the connection over from the driver, which has read all that the
// server has sent so far.
func (d *dump) begin(ctx context.Context, command []byte) error {
	err := d.session.Guard(ctx, func() error {
		d.session.Client.ResetSequence()
		return d.session.Client.WritePacket(command)
	})
	if err != nil {
		return fmt.Errorf("start to read the binlog: %w", err)
	}
	d.wire = binlog.NewReader(d.session.Client.Conn.Conn)
	return nil
}

// errCut ends a stream at an event without an end.
var errCut = errors.New("a server that was killed left an event without its end")

// passCut goes on behind such an event, with which cut has ended the stream. MariaDB leaves it if it is killed while it writes, and sends nothing
// that comes after it. As it starts again, it rolls the transaction back, because its log does not hold all of it, and begins another file.
func (st *stream) passCut(ctx context.Context, cut error) error {
	if st.unproven || !st.opened || st.byGTID { // it may be the place that is wrong
		return cut
	}
	d, err := st.source.openDump(ctx)
	if err != nil {
		return err
	}
	files, err := server.ReadLogFiles(ctx, d.session)
	if err == nil {
		next := slices.IndexFunc(files, func(f server.LogFile) bool { return f.Start.Base == st.cur.Base && f.Start.File == st.cur.File+1 })
		if next < 0 || d.server.ID != st.dump.server.ID {
			err = cut
		} else {
			st.cfg.Logger.Warn("the server was killed while it wrote a transaction, and has rolled it back: reading goes on in the next file", "binlog", st.cur.String(), "error", cut)
			err = st.source.start(ctx, d, files[next].Start)
		}
	}
	if err != nil {
		return errors.Join(err, d.close(ctx))
	}
	before := st.dump
	st.dump, st.wire = d, d.wire
	return before.close(ctx)
}

// streamError gives a server's error its meaning: what ends a stream for good is a lost position.
func streamError(err error) error {
	e := server.Answer(err)
	if e == nil {
		return err
	}
	text := strings.ToLower(e.Message)
	switch {
	case e.Code == server.CodeSlaveSameID || strings.Contains(text, "same server_uuid") || strings.Contains(text, "same server_id") || strings.Contains(text, "server_uuid/server_id"):
		return fmt.Errorf("%w: another reader of the binlog has the same server_id: give each one its own", err)
	case e.Code == server.CodeFatalDump && strings.Contains(text, "truncated in the middle of event"):
		return fmt.Errorf("%w: %w: %w", err, errCut, source.ErrGap)
	case e.Code == server.CodeFatalDump:
		return fmt.Errorf("%w: %w", err, source.ErrGap)
	}
	return err
}
