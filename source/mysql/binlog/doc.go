// Package binlog reads the binlog of MySQL and MariaDB: the packets that the server sends, the events in them, the values of
// their rows, sets of GTIDs, and positions. It knows nothing of outboxes and can be used alone.
//
// A reader registers with RegisterReplica, asks for the log with DumpFrom, DumpFromState or DumpAfter, and hands the connection
// to a Reader. What fits into the Reader's buffer is parsed where it stands, so parsing copies and allocates nothing. Larger
// events come in pieces (LargePacket, Body), so memory is bounded whatever the size of a row or transaction.
//
// No input makes a parser panic or allocate more than a small multiple of the input. What cannot be parsed is an error that
// matches ErrProtocol.
package binlog
