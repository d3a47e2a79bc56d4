package mysql

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tailbox/tailbox/source"
)

const (
	// heartbeat is how often the server says something at least; silenceLimit is when it is given up.
	heartbeat    = 4 * time.Second
	silenceLimit = 15 * time.Second
	// writeTimeout is how long the server waits for a reader that does not read, because the relay has no memory for more.
	writeTimeout = time.Hour
)

// A dump is a connection that the binlog comes over.
type dump struct {
	session *session
	wire    *wire
	server  *serverInfo
}

func (d *dump) close(ctx context.Context) error {
	d.session.broken = true // it speaks another protocol now
	return d.session.close(ctx)
}

// openDump connects for reading the binlog, and looks whether the server is one whose log can be read.
func (s *Source) openDump(ctx context.Context) (*dump, error) {
	conn, err := s.cfg.connect(ctx, s.cfg.URL)
	if err != nil {
		return nil, err
	}
	d := &dump{session: conn}
	if d.server, err = inspect(ctx, conn); err == nil {
		err = s.cfg.logged(ctx, conn)
	}
	if err == nil {
		err = s.prepareDump(ctx, d)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("prepare to read the binlog: %w", err), conn.close(ctx))
	}
	return d, nil
}

// prepareDump tells the server who reads, and what it understands.
func (s *Source) prepareDump(ctx context.Context, d *dump) error {
	period := strconv.FormatInt(heartbeat.Nanoseconds(), 10)
	set := "SET @master_heartbeat_period = " + period + ", @source_heartbeat_period = " + period +
		", @master_binlog_checksum = @@global.binlog_checksum, @source_binlog_checksum = @@global.binlog_checksum" +
		", @slave_uuid = " + quoteLiteral(s.uuid) + ", @replica_uuid = " + quoteLiteral(s.uuid) +
		", net_write_timeout = " + strconv.Itoa(int(writeTimeout.Seconds()))
	if d.session.server.mariadb {
		set += ", @mariadb_slave_capability = 4" // it understands GTIDs
	}
	if _, err := d.session.exec(ctx, set); err != nil {
		return err
	}
	if err := s.checkServerID(ctx, d); err != nil {
		return err
	}
	host := "tailbox_" + s.cfg.Pipeline
	host = host[:min(len(host), 60)]
	b := append(make([]byte, packetHead), mysql.COM_REGISTER_SLAVE)
	b = binary.LittleEndian.AppendUint32(b, s.serverID)
	b = append(append(b, byte(len(host))), host...)
	b = append(b, 0, 0)                   // no user, no password
	b = append(b, make([]byte, 2+4+4)...) // no port, no rank, no master
	return d.session.guard(ctx, func() error {
		d.session.conn.ResetSequence()
		if err := d.session.conn.WritePacket(b); err != nil {
			return err
		}
		if _, err := d.session.conn.ReadOKPacket(); err != nil {
			return rightsCure(d.session, err)
		}
		return nil
	})
}

// checkServerID looks whether another reader of the binlog has the number that this one wants. A number that was drawn is
// drawn again.
func (s *Source) checkServerID(ctx context.Context, d *dump) error {
	rows, err := d.session.texts(ctx, showReplicas(d.session))
	switch code := errorCode(err); {
	case code == codeNeedPrivilege || code == codeAccessDenied:
		return nil // MariaDB asks for a privilege that this is not worth
	case err != nil:
		return fmt.Errorf("list the server's replicas: %w", err)
	}
	taken := map[string]string{d.server.serverID: "the server itself"}
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

func showReplicas(s *session) string {
	if s.server.mariadb || !s.server.atLeast(8, 0, 22) {
		return "SHOW SLAVE HOSTS"
	}
	return "SHOW REPLICAS"
}

// randomServerID draws from the upper half, where people seldom number servers.
func randomServerID() uint32 { return 1<<31 | rand.Uint32() }

// start has the server send the binlog from a place on. A place beyond what the command can say is read from the beginning of
// its file.
func (s *Source) start(ctx context.Context, d *dump, at place) error {
	pos := at.pos
	if pos > 1<<32-1 {
		pos = firstPos
	}
	b := append(make([]byte, packetHead), mysql.COM_BINLOG_DUMP)
	b = binary.LittleEndian.AppendUint32(b, uint32(pos))
	b = append(b, 0, 0) // wait at the log's end
	b = binary.LittleEndian.AppendUint32(b, s.serverID)
	return d.begin(ctx, append(b, at.name()...))
}

// startAfter has the server send what is not in a set of GTIDs.
func (s *Source) startAfter(ctx context.Context, d *dump, set *gtidSet) error {
	if d.session.server.mariadb {
		_, err := d.session.exec(ctx, "SET @slave_connect_state = "+quoteLiteral(set.String())+", @slave_gtid_strict_mode = 1, @slave_gtid_ignore_duplicates = 0")
		if err != nil {
			return fmt.Errorf("start to read the binlog: %w", err)
		}
		b := append(make([]byte, packetHead), mysql.COM_BINLOG_DUMP)
		b = binary.LittleEndian.AppendUint32(b, firstPos)
		b = append(b, 0, 0)
		return d.begin(ctx, binary.LittleEndian.AppendUint32(b, s.serverID))
	}
	parsed, err := mysql.ParseMysqlGTIDSet(set.String())
	if err != nil {
		return fmt.Errorf("start to read the binlog after %s: %w", set, err)
	}
	encoded := parsed.Encode()
	b := append(make([]byte, packetHead), mysql.COM_BINLOG_DUMP_GTID)
	b = append(b, 4, 0) // go by the GTIDs
	b = binary.LittleEndian.AppendUint32(b, s.serverID)
	b = binary.LittleEndian.AppendUint32(b, 0) // no file
	b = binary.LittleEndian.AppendUint64(b, firstPos)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(encoded)))
	return d.begin(ctx, append(b, encoded...))
}

// begin sends the command that starts the stream, and takes the connection over from the driver, which has read all that the
// server has sent so far.
func (d *dump) begin(ctx context.Context, command []byte) error {
	err := d.session.guard(ctx, func() error {
		d.session.conn.ResetSequence()
		return d.session.conn.WritePacket(command)
	})
	if err != nil {
		return fmt.Errorf("start to read the binlog: %w", err)
	}
	d.wire = newWire(d.session.conn.Conn.Conn)
	return nil
}

// streamError gives a server's error its meaning: what ends a stream for good is a lost position.
func streamError(err error) error {
	e := serverError(err)
	if e == nil {
		return err
	}
	text := strings.ToLower(e.Message)
	switch {
	case e.Code == codeSlaveSameID || strings.Contains(text, "same server_uuid") || strings.Contains(text, "same server_id") || strings.Contains(text, "server_uuid/server_id"):
		return fmt.Errorf("%w: another reader of the binlog has the same server_id: give each one its own", err)
	case e.Code == codeFatalDump:
		return fmt.Errorf("%w: %w", err, source.ErrGap)
	}
	return err
}
