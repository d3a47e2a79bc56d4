package binlog

import (
	"encoding/binary"
	"fmt"

	"github.com/go-mysql-org/go-mysql/mysql"
)

// RegisterReplica returns the command by which a reader of the binlog makes itself known. SHOW REPLICAS lists its host.
func RegisterReplica(serverID uint32, host string) []byte {
	b := append(make([]byte, packetHead), mysql.COM_REGISTER_SLAVE)
	b = binary.LittleEndian.AppendUint32(b, serverID)
	b = append(append(b, byte(len(host))), host...)
	b = append(b, 0, 0)                      // no user, no password
	return append(b, make([]byte, 2+4+4)...) // no port, no rank, no master
}

// DumpFrom returns the command that has the server send the binlog from a position on. If the position does not fit into the
// command's 32 bits, the server sends the file from its beginning.
func DumpFrom(serverID uint32, at Position) []byte {
	pos := at.Pos
	if pos > 1<<32-1 {
		pos = FirstPos
	}
	return append(binlogDump(serverID, uint32(pos)), at.FileName()...)
}

// DumpFromState returns the command that has MariaDB send what follows the GTIDs in @slave_connect_state.
func DumpFromState(serverID uint32) []byte { return binlogDump(serverID, FirstPos) }

func binlogDump(serverID, pos uint32) []byte {
	b := append(make([]byte, packetHead), mysql.COM_BINLOG_DUMP)
	b = binary.LittleEndian.AppendUint32(b, pos)
	b = append(b, 0, 0) // wait at the end of the log
	return binary.LittleEndian.AppendUint32(b, serverID)
}

// DumpAfter returns the command that has MySQL send every transaction that is not in a set of GTIDs.
func DumpAfter(serverID uint32, set *GTIDSet) ([]byte, error) {
	parsed, err := mysql.ParseMysqlGTIDSet(set.String())
	if err != nil {
		return nil, fmt.Errorf("start to read the binlog after %s: %w", set, err)
	}
	encoded := parsed.Encode()
	b := append(make([]byte, packetHead), mysql.COM_BINLOG_DUMP_GTID)
	b = append(b, 4, 0) // go by the GTIDs
	b = binary.LittleEndian.AppendUint32(b, serverID)
	b = binary.LittleEndian.AppendUint32(b, 0) // no file
	b = binary.LittleEndian.AppendUint64(b, FirstPos)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(encoded)))
	return append(b, encoded...), nil
}
